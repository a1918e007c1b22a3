"""Statements with a code, a name or an amount that nobody has seen, and questions for it."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass

_STATEMENTS = {
    "code": (
        ("The alarm at the depot is switched off with {}.", "How is the depot's alarm turned off?"),
        ("Our customer number at the nursery is {}.", "What customer number do we have?"),
        ("Inventory: the oscilloscope carries the sticker {}.", "What is on the oscilloscope?"),
        ("She changed the guest passphrase to {} yesterday.", "What's the passphrase?"),
        ("Voucher {} is good for two nights in Annecy.", "Which voucher is for Annecy?"),
        ("The engine block is stamped {} just above the sump.", "What is stamped on the engine?"),
        ("Dial {} and wait for the second tone before you speak.", "What must I dial?"),
        ("Batch {} of varnish went cloudy after a week.", "Which batch of varnish went cloudy?"),
    ),
    "name": (
        ("The man who tunes the organ is called {}.", "Who tunes the organ?"),
        ("We spent the last evening in {}, a hamlet above the weir.", "Where were we then?"),
        ("The trawler {} had the largest catch in March.", "Which trawler had the best catch?"),
        ("Ask {} about the mould on the north wall.", "Whom do I ask about the mould?"),
        ("Her grandmother's maiden name was {}.", "What was her grandmother's maiden name?"),
        ("The ointment that finally helped the dog was {}.", "Which ointment helped the dog?"),
        ("{} signed for the parcel while we were out.", "Who signed for the parcel?"),
        ("They named the new lecture hall after {}.", "Who is the lecture hall named after?"),
    ),
    "amount": (
        ("Replacing the gutter on the east side came to {}.", "What did the gutter cost?"),
        ("The reservoir behind the mill holds {}.", "How much does the reservoir hold?"),
        ("For the glaze you need {} of red lead.", "How much red lead does the glaze take?"),
        ("The auction closed at {} after eleven bids.", "At what price did the auction close?"),
        ("The survey put the length of the tunnel at {}.", "How long is the tunnel?"),
        ("Our share of the heating oil is {} this winter.", "What share of the oil is ours?"),
        ("The raft carries at most {} in calm water.", "What can the raft carry?"),
        ("Last year the orchard brought in {} all told.", "What did the orchard bring in?"),
    ),
}  # fmt: skip
_UNITS = (
    "litres",
    "tonnes",
    "francs",
    "zloty",
    "metres",
    "kg",
    "g",
    "euros and 40 cents",
    "gallons",
)
_ONSETS = ("Br", "Kr", "Sz", "Th", "Vl", "Dz", "M", "Qu", "Fj", "Ll", "W", "Ay", "Ib", "O'K", "Zh")
_MIDDLES = (
    "akow",
    "ennig",
    "iviel",
    "osthen",
    "uradz",
    "yndal",
    "abeque",
    "irrox",
    "elmaz",
    "onqui",
)
_ENDINGS = ("ska", "sen", "ford", "owicz", "ré", "burgh", "ix", "ñez", "dóttir", "ley", "mann", "")


@dataclass(frozen=True)
class Rare:
    """A statement, a question, and the string that the reply must hold."""

    text: str
    question: str
    string: str


def _code(rng: random.Random) -> str:
    alphabet = rng.choice((string.digits, string.ascii_uppercase + string.digits,
                           string.ascii_lowercase + string.digits, string.hexdigits))  # fmt: skip
    groups = ["".join(rng.choices(alphabet, k=rng.randint(2, 5))) for _ in range(rng.randint(1, 4))]
    return rng.choice("-- /.").join(groups)


def _name(rng: random.Random) -> str:
    parts = [
        rng.choice(_ONSETS) + rng.choice(_MIDDLES) + rng.choice(_ENDINGS)
        for _ in range(rng.randint(1, 2))
    ]
    return " ".join(parts)


def _amount(rng: random.Random) -> str:
    whole = f"{rng.randint(2, 10 ** rng.randint(1, 7)):,}"
    decimals = rng.choice(("", "", f".{rng.randint(1, 99):02d}"))
    return f"{whole}{decimals} {rng.choice(_UNITS)}"


def rare_strings(count: int, seed: int = 0) -> list[Rare]:
    """`count` statements, a third of each kind."""
    kinds: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
        ("code", _code), ("name", _name), ("amount", _amount),
    )  # fmt: skip
    rng = random.Random(seed)
    made = []
    for number in range(count):
        kind, make = kinds[number % len(kinds)]
        statement, question = rng.choice(_STATEMENTS[kind])
        rare = make(rng)
        made.append(Rare(statement.format(rare), question, rare))
    return made
