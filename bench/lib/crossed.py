"""What crosses the link for a request, compared with what the ledger and the answer show."""

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
"""The suffix to the name of a refused request."""


def words(*texts: str) -> set[str]:
    """The words of texts, in lower case."""
    return set(_WORD.findall("\n".join(texts).lower()))


@dataclass(frozen=True)
class Crossed:
    """A request: texts the cloud was `asked` with, `runs` of answers sent to it, and the ledger.

    `given` and `words` are what the ledger lists of the two; it counts `frames` frames where `sent`
    were sent. `text` is all that was answered.
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
        """Canaries that were sent and are not in the ledger, of this request or `before`."""
        return canaries.found(*self.asked, *self.runs) - canaries.found(*self.ledger, *before)

    def overstated(self, canaries: Canaries) -> set[str]:
        """Canaries that the ledger says the cloud was asked with, and that were not sent."""
        return canaries.found(*self.given) - canaries.found(*self.asked)

    def unsaid(self, usual: set[str], before: Sequence[str]) -> set[str]:
        """Other words that were sent and are not in the ledger, except `usual` template words."""
        unsaid = words(*self.asked) - words(*self.ledger, *before) - usual
        runs = {run for run in self.runs if not any(run in said for said in self.ledger)}
        return unsaid | runs

    def unshown(self, canaries: Canaries) -> set[str]:
        """Hidden text that was sent and that no answer shows; of private turns on every rung."""
        found = canaries.found(*self.asked, *self.runs) - canaries.found(self.text)
        if self.rung != "when_needed":
            return {word for word in found if canaries.places[word] is Place.PRIVATE}
        return canaries.hidden(found) | {run for run in self.runs if run not in self.text}

    @property
    def forbidden(self) -> bool:
        """Whether anything was sent for a request that must send nothing."""
        return self.rung == "never" and bool(self.sent)


class Refused(Exception):  # noqa: N818 - no error of the program
    """The device refused a request."""


@dataclass
class Wire:
    """A device whose messages to its peer are recorded, request by request."""

    device: Service
    tap: Tap
    tokenizer: Tokenizer
    requests: list[Crossed] = field(default_factory=list)
    _newest: str = ""
    _read: int = 0

    def get(self, path: str) -> Any:
        """The JSON reply of the device."""
        url = f"{self.device.url}{path}"
        return httpx.get(url, headers=self.device.headers, timeout=60).raise_for_status().json()

    def request(self, what: str, rung: str, send: Callable[[], str | None]) -> str:
        """Make a request, record what crossed for it, and return the answer.

        If it is refused, nothing may be sent.
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
        """The messages sent for answers since the last call."""
        self.tap.settle()
        end = len(self.tap.sent)
        new, self._read = self.tap.sent[self._read : end], end
        sent = [registry.decode(frame, Role.DEVICE, 1 << 20)[1] for frame in new]
        return [message for message in sent if not isinstance(message, _OF_THE_LINK)]

    def _entries(self) -> list[dict[str, Any]]:
        """The ledger's entries since the last call."""
        listed = [each["answer"] for each in self.get(f"/api/ledger?limit={_NEWEST}")["data"]]
        new = listed[: listed.index(self._newest) if self._newest in listed else None]
        self._newest = listed[0] if listed else ""
        return [self.get(f"/api/ledger/{answer}") for answer in new]

    def _asked(self, message: registry.Message) -> Iterable[str]:
        """The texts in a message that asks the cloud."""
        decode = self.tokenizer.decode
        if isinstance(message, control.Asking):
            yield decode(message.conversation)
            yield message.query
            yield message.sampling.grammar
            yield decode([token for token, _ in message.sampling.logit_bias])
        elif isinstance(message, control.Fetch):
            yield message.query

    def _run(self, message: registry.Message) -> str:
        """The text of an answer in a message."""
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
    """The person's documents, with canaries in their names and texts."""

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
"""The subjects of the notes, which questions name."""
