"""What crosses the link for a request, beside what the ledger says of it and the answer shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.lib.canaries import Canaries, Place
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control, registry
from dragon.protocol.messages import Correction, Join
from dragon.sampling.role import Role
from harness.pdf import pdf
from harness.services import Service
from harness.wiretap import Tap

_OF_THE_LINK = (control.Hello, control.Ping, control.Pong, control.Probe, control.Draining)
_WORD = re.compile(r"\w+")
_NEWEST = 50
REFUSED = ", refused"
"""How the name of such a request ends."""


def words(*texts: str) -> set[str]:
    """The words of texts, in small letters."""
    return set(_WORD.findall("\n".join(texts).lower()))


@dataclass(frozen=True)
class Crossed:
    """A request: what it was, what the cloud was asked with, words of answers, what is said of it.

    `given` and `words` are what the ledger has of both, `frames` how many frames it counts; `text`
    is all that was answered.
    """

    what: str
    rung: str
    text: str
    asked: Sequence[str]
    runs: Sequence[str]
    sent: int
    given: Sequence[str]
    words: Sequence[str]
    frames: int

    @property
    def ledger(self) -> Sequence[str]:
        """All that the ledger has of it."""
        return [*self.given, *self.words]

    def unnamed(self, canaries: Canaries, before: Sequence[str]) -> set[str]:
        """Canaries that went up and stand in the ledger neither of this request nor `before`."""
        return canaries.found(*self.asked, *self.runs) - canaries.found(*self.ledger, *before)

    def overstated(self, canaries: Canaries) -> set[str]:
        """Canaries that the cloud was asked with as the ledger has it, and was not."""
        return canaries.found(*self.given) - canaries.found(*self.asked)

    def unsaid(self, usual: set[str], before: Sequence[str]) -> set[str]:
        """Other words that went up and that the ledger does not have: `usual` are templates'."""
        unsaid = words(*self.asked) - words(*self.ledger, *before) - usual
        runs = {run for run in self.runs if not any(run in said for said in self.ledger)}
        return unsaid | runs

    def unshown(self, canaries: Canaries) -> set[str]:
        """What was not to go up, and no answer shows: of private turns, whatever the rung."""
        found = canaries.found(*self.asked, *self.runs) - canaries.found(self.text)
        if self.rung != "when_needed":
            return {word for word in found if canaries.places[word] is Place.PRIVATE}
        return canaries.hidden(found) | {run for run in self.runs if run not in self.text}

    @property
    def forbidden(self) -> bool:
        """Whether anything left for a request of which nothing may."""
        return self.rung == "never" and bool(self.sent)


class Refused(Exception):  # noqa: N818 - no error of the program
    """A request that the device does not take."""


@dataclass
class Wire:
    """A device whose every word to its peer is written down, request by request."""

    device: Service
    tap: Tap
    tokenizer: Tokenizer
    requests: list[Crossed] = field(default_factory=list)
    _newest: str = ""
    _read: int = 0

    def get(self, path: str) -> Any:
        """What the device says."""
        url = f"{self.device.url}{path}"
        return httpx.get(url, headers=self.device.headers, timeout=60).raise_for_status().json()

    def request(self, what: str, rung: str, send: Callable[[], str | None]) -> str:
        """Make a request, and note what crossed for it; returns what was answered.

        For one that is refused nothing may leave.
        """
        try:
            text = send() or ""
        except Refused as error:
            what, rung, text = f"{what}{REFUSED}", "never", str(error)
        entries = self._entries()
        counted = sum(len(each["frames"]) for each in entries)
        own = self._sent()
        self.requests.append(
            Crossed(
                what,
                rung,
                text,
                [each for message in own for each in self._asked(message)],
                [run for message in own if (run := self._run(message))],
                len(own),
                [part["text"] or "" for each in entries for part in each["given"] or ()],
                [word for each in entries for word in each["words"] or ()],
                counted,
            )
        )
        return text

    def _sent(self) -> list[registry.Message]:
        """What left for answers and was not read before."""
        self.tap.settle()
        end = len(self.tap.sent)
        new, self._read = self.tap.sent[self._read : end], end
        sent = [registry.decode(frame, Role.DEVICE, 1 << 20)[1] for frame in new]
        return [message for message in sent if not isinstance(message, _OF_THE_LINK)]

    def _entries(self) -> list[dict[str, Any]]:
        """What the ledger has of answers that it did not have before."""
        listed = [each["answer"] for each in self.get(f"/api/ledger?limit={_NEWEST}")["data"]]
        new = listed[: listed.index(self._newest) if self._newest in listed else None]
        self._newest = listed[0] if listed else ""
        return [self.get(f"/api/ledger/{answer}") for answer in new]

    def _asked(self, message: registry.Message) -> Iterable[str]:
        """The texts in what asks the cloud."""
        decode = self.tokenizer.decode
        if isinstance(message, control.Asking):
            yield decode(message.conversation)
            yield message.query
            yield message.sampling.grammar
            yield decode([token for token, _ in message.sampling.logit_bias])
        elif isinstance(message, control.Fetch):
            yield message.query

    def _run(self, message: registry.Message) -> str:
        """What a message holds of an answer."""
        tokens: Sequence[int] = ()
        match message:
            case Correction():
                tokens = message.tokens
            case Join():
                tokens = message.tail
            case control.Open():
                tokens = message.committed
            case control.ScoreText():
                tokens = message.text
        return self.tokenizer.decode(tokens).strip()


@dataclass(frozen=True)
class Notes:
    """What the person's documents say: each by its file, with a canary in name and text."""

    canaries: Canaries

    def files(self) -> dict[str, bytes]:
        """The files, by name."""
        return {
            f"{self.canaries.new(Place.NAME)}.md": (
                f"# {thing.capitalize()}\n\nThe {thing} of the {place} is "
                f"{self.canaries.new(Place.DOCUMENT)}. It was changed by "
                f"{self.canaries.new(Place.DOCUMENT)} in spring.\n"
            ).encode()
            for thing, place in NOTED
        } | {
            f"{self.canaries.new(Place.NAME)}-journey.pdf": pdf(
                f"I fly to Bhutan on 14 June, and stay with {self.canaries.new(Place.DOCUMENT)}."
            )
        }


NOTED = tuple(
    (thing, place)
    for place in ("cabin", "boat house", "office", "allotment")
    for thing in ("wifi password", "alarm code", "safe combination")
)
"""What the notes are about: questions name it, and so does what a document is asked for."""
