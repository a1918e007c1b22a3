"""Questions made by rule from a sentence's own words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_STOP = frozenset(
    """
    a an the of to in on at by for with from and or but nor as is are was were be been being it its
    he she they them his her their him i you we us my your our me this that these those there here
    which who whom whose what when where why how not no so if than then had has have do does did
    will would shall should may might can could must very too also just only into upon out up down
    over such all any some more most other one about after before said
    """.split()  # noqa: SIM905
)
_AUX = "was|were|is|are|had|has|can|could|will|would|should|must|may|might"
_COPULA = re.compile(rf"^(?P<s>(?:[\w'-]+ ){{1,6}}?)(?P<v>{_AUX}) (?P<r>.+)$")
_IRREGULAR = dict(
    pair.split("/")
    for pair in [
        "began/begin",
        "came/come",
        "went/go",
        "became/become",
        "said/say",
        "told/tell",
        "thought/think",
        "knew/know",
        "got/get",
        "ran/run",
        "fell/fall",
        "held/hold",
        "stood/stand",
        "sat/sit",
        "met/meet",
        "felt/feel",
        "heard/hear",
        "spoke/speak",
        "rose/rise",
        "wore/wear",
        "drove/drive",
        "rode/ride",
        "flew/fly",
        "sank/sink",
        "swam/swim",
        "ate/eat",
        "drank/drink",
        "paid/pay",
        "laid/lay",
        "fought/fight",
        "shot/shoot",
        "struck/strike",
        "swore/swear",
        "spent/spend",
        "fed/feed",
        "forgot/forget",
        "bore/bear",
        "bit/bite",
        "blew/blow",
        "dealt/deal",
        "dug/dig",
        "hung/hang",
        "shook/shake",
        "shone/shine",
        "slept/sleep",
        "slid/slide",
        "swept/sweep",
        "swung/swing",
        "tore/tear",
        "woke/wake",
        "took/take",
        "gave/give",
        "found/find",
        "made/make",
        "brought/bring",
        "bought/buy",
        "built/build",
        "wrote/write",
        "drew/draw",
        "won/win",
        "lost/lose",
        "hid/hide",
        "left/leave",
        "taught/teach",
        "lent/lend",
        "caught/catch",
        "broke/break",
        "chose/choose",
        "grew/grow",
        "kept/keep",
        "sent/send",
        "threw/throw",
        "sang/sing",
        "saw/see",
        "led/lead",
        "sold/sell",
        "stole/steal",
        "meant/mean",
        "sought/seek",
    ]
)
_PAST = re.compile(
    rf"^(?P<s>(?:[\w'.-]+ ){{1,6}}?)(?P<v>[a-z]{{3,}}ed|{'|'.join(_IRREGULAR)}) (?P<r>.+)$"
)
_OBJECT = re.compile(
    r"^(?P<o>[\w' -]+?) (?P<p>(?:in|at|on|from|to|with|for|by|into|of|through|over) .+)$"
)
_YEAR = re.compile(r"\b(?:in|since|by|until|from) (1[0-9]{3}|20[0-2][0-9])\b")
_COUNT = re.compile(
    r"\b(\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty) ([a-z]+s)\b"
)
_PLACE = re.compile(r"\b(?:in|at|near|from|to) ((?:the )?[A-Z][a-z]+(?: [A-Z][a-z]+)?)\b")
_NAME = re.compile(r"^((?:[A-Z][a-z.]+ )+)(?=[a-z]+(?:ed|s)? )")
_ABOUT = (
    "What is said about {}?", "What does it say about {}?", "Tell me about {}.", "{}?", "{}",
    "What about {}?", "Where is {} mentioned?", "What do you know about {}?", "Find {}",
    "What happened with {}?", "Is there anything about {}?", "Which sentence mentions {}?",
    "What does the text say about {}?", "How is {} described?", "What is written about {}?",
)  # fmt: skip
_UNDOUBLED = ("stopp", "plann", "begg", "grabb", "dropp", "slipp", "nodd", "robb", "travell")
_SILENT_E = re.compile(
    r"(?:[aeiou][bcdgkptvz]|[aeiou]r|[sc]|[ai]s|u|[lng]g|[rl]v|[nr]c|[bdgtpfkz]l|us|as|at|it)$"
)
_NO_SILENT_E = re.compile(r"(?:[aeo][aeiou][dktpr]|er|en|ow|ss|it|ch|sh)$")


def base_form(past: str) -> str:
    """A guess at the base form of a past tense."""
    if past in _IRREGULAR:
        return _IRREGULAR[past]
    stem = past[:-2]
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if stem in _UNDOUBLED:
        return stem[:-1]
    if _SILENT_E.search(stem) and not _NO_SILENT_E.search(stem):
        return stem + "e"
    return stem


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def _trim(text: str, rng: random.Random, low: int = 2, high: int = 9) -> str:
    """The first words of a clause, cut at a random length or at a comma."""
    clause = re.split(r"[,;:(—]|--", text.rstrip(".!?\"'”’"))[0].split()
    return " ".join(clause[: rng.randint(low, high)])


def _cloze_copula(sentence: str, rng: random.Random) -> str | None:
    match = _COPULA.match(sentence)
    if not match:
        return None
    subject, verb, rest = match["s"].strip(), match["v"], _trim(match["r"], rng)
    if not rest:
        return None
    lowered = subject if subject[:1].isupper() and _is_name(subject) else _lower_first(subject)
    forms = (
        f"Who {verb} {rest}?" if _is_name(subject) else f"What {verb} {rest}?",
        f"What {verb} {lowered}?", f"What {verb} {lowered} {rest.split()[0]}?",
        f"When {verb} {lowered} {rest}?", f"Where {verb} {lowered} {rest}?",
        f"Why {verb} {lowered} {rest}?", f"How {verb} {lowered} {rest}?",
    )  # fmt: skip
    return rng.choice(forms)


def _cloze_past(sentence: str, rng: random.Random) -> str | None:
    match = _PAST.match(sentence)
    if not match:
        return None
    subject, verb, rest = match["s"].strip(), match["v"], _trim(match["r"], rng)
    if not rest:
        return None
    lowered = subject if _is_name(subject) else _lower_first(subject)
    base = base_form(verb)
    parts = _OBJECT.match(match["r"])
    if parts and rng.random() < 0.5:
        thing, place = _trim(parts["o"], rng), _trim(parts["p"], rng)
        return rng.choice((
            f"What did {lowered} {base} {place}?", f"Who {verb} {thing}?", f"Who {verb} {thing}?",
            f"Where did {lowered} {base} {thing}?", f"When did {lowered} {base} {thing}?",
            f"What was it that {lowered} {verb} {place}?", f"Why did {lowered} {base} {thing}?",
        ))  # fmt: skip
    forms = (
        f"Who {verb} {rest}?", f"What {verb} {rest}?", f"What did {lowered} {base}?",
        f"When did {lowered} {base} {rest}?", f"Where did {lowered} {base} {rest}?",
        f"Why did {lowered} {base} {rest}?", f"How did {lowered} {base} {rest}?",
        f"Whom did {lowered} {base}?", f"What happened when {lowered} {verb} {rest}?",
    )  # fmt: skip
    return rng.choice(forms)


def _is_name(subject: str) -> bool:
    words = subject.split()
    return words[0].lower() not in _STOP and words[-1][:1].isupper()


def _lower_first(text: str) -> str:
    first = text.split()[0]
    return text if first == "I" else text[:1].lower() + text[1:]


def _typed(sentence: str, rng: random.Random) -> str | None:
    """A question for a year, a count, a place or a leading name."""
    options: list[str] = []
    body = sentence.rstrip(".!?\"'”’")
    if match := _YEAR.search(body):
        rest = _content(body.replace(match.group(0), ""), rng)
        options += [f"In which year {rest}?", f"When {rest}?", f"What year {rest}?"]
    if match := _COUNT.search(body):
        options.append(
            f"How many {match.group(2)} {_content(body.replace(match.group(0), ''), rng)}?"
        )
    if match := _PLACE.search(body):
        options.append(f"Where {_content(body.replace(match.group(0), ''), rng)}?")
    if match := _NAME.match(body):
        options += [f"Who {_trim(body[match.end() :], rng, 3)}?"] * 2
    return rng.choice(options) if options else None


def _content(text: str, rng: random.Random) -> str:
    """Some of the content words, mostly in their order."""
    words = [word for word in _words(text) if word.lower() not in _STOP]
    if not words:
        return text
    count = min(len(words), rng.randint(2, 5))
    chosen = sorted(rng.sample(range(len(words)), count))
    if rng.random() < 0.2:
        rng.shuffle(chosen)
    kept = [words[index] for index in chosen]
    if rng.random() < 0.4:
        kept.insert(0, rng.choice(("was", "did", "is", "were", "does")))
        if rng.random() < 0.5:
            kept.insert(rng.randint(1, len(kept)), "the")
    return " ".join(kept)


def _about(sentence: str, rng: random.Random) -> str | None:
    words = sentence.split()
    if len(words) < 4:
        return None
    size = rng.randint(2, min(6, len(words)))
    start = rng.randrange(len(words) - size + 1)
    phrase = " ".join(words[start : start + size]).strip(".,;:!?\"'“”’() ")
    if rng.random() < 0.5:
        phrase = _content(sentence, rng)
    return rng.choice(_ABOUT).format(_lower_first(phrase) if phrase else phrase)


def make_question(sentence: str, passage: list[str], rng: random.Random) -> str | None:
    """A question that this sentence of the passage answers, or None if none can be made."""
    if not 20 < len(sentence) < 260:
        return None
    makers: tuple[Callable[[str, random.Random], str | None], ...] = (
        _cloze_copula, _cloze_past, _cloze_copula, _cloze_past, _typed, _typed, _about,
    )  # fmt: skip
    start = rng.randrange(len(makers))
    for offset in range(len(makers)):
        question = makers[(start + offset) % len(makers)](sentence, rng)
        if question and _singles_out(question, sentence, passage):
            return question[:1].upper() + question[1:] if rng.random() < 0.9 else question.lower()
    return None


def _singles_out(question: str, sentence: str, passage: list[str]) -> bool:
    """Whether the question shares more content words with its sentence than with any other."""
    asked = {word.lower() for word in _words(question)} - _STOP

    def overlap(text: str) -> int:
        return len(asked & {word.lower() for word in _words(text)})

    own = overlap(sentence)
    return own >= 1 and all(overlap(other) < own for other in passage if other != sentence)
