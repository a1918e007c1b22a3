"""Builds what the database stores of an answer, as the page shows it: pure functions of its state.

`record` has `seams` (character offset, whether the cloud joined, why), `ledgers` (the answer's id
in the ledger for each time it was written or continued), `sources` with what was found, `citations`
of them in the text, `phrases` of the device's own, `asked` (how it was requested), and `done` or
`error` once it has ended.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from app.generation.accumulator import AnswerState
from app.generation.events import Citation, GenerationRequest, SourcesFound, TokenDetail
from app.problems import Problem
from app.storage.tables import MessageState, Phrase
from dragon.localizable import with_localizable

Fields = dict[str, Any]


@dataclass(frozen=True)
class Ending:
    """How an answer ended: `problem` for an error, else its generation was done or stopped."""

    state: MessageState
    problem: Problem | None = None


@dataclass(frozen=True)
class Before:
    """An answer before it was continued; empty for a new one."""

    text: str = ""
    record: Fields = field(default_factory=dict)
    tokens: tuple[Any, ...] = ()


def sources(found: SourcesFound) -> Fields:
    """What was found, without `declines`: such an answer is recorded by its phrase."""
    fields = asdict(found)
    del fields["declines"]
    return fields


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


@dataclass
class Written:
    """An answer in a conversation: the text before, and the state of what is being written."""

    before: Before
    left_out: int = 0
    answer: AnswerState | None = None
    ending: Ending | None = None
    model: str = ""

    @property
    def text(self) -> str:
        return self.before.text + (self.answer.text if self.answer else "")

    @property
    def tokens(self) -> list[Any]:
        """The provenance of its tokens, as far as it is known."""
        details = self.answer.details if self.answer else []
        moved = [detail.provenance() | self._moved(detail) for detail in details]
        return [*self.before.tokens, *moved]

    @property
    def seams(self) -> list[list[Any]]:
        """The places in the whole text where the cloud joined or left, except its beginning."""
        seams = list(self.before.record.get("seams", []))
        text, begun = self.text, len(self.before.text)
        for seam in self.answer.seams if self.answer else []:
            joint = bool(seams[-1][1]) if seams else True
            if seam.joint is not joint and text[: begun + seam.offset].strip():
                seams.append([begun + seam.offset, seam.joint, seam.reason])
        return seams

    @property
    def phrases(self) -> list[list[Any]]:
        """The places of the device's own phrases in the whole text."""
        phrases = list(self.before.record.get("phrases", []))
        begun, end = len(self.before.text), len(self.text)
        if self.answer and self.answer.declines and begun < end:
            phrases.append([begun, end, Phrase.NO_ANSWER])
        return phrases

    @property
    def ledgers(self) -> list[str]:
        """Its ids in the ledger: a continued answer has one per continuation."""
        now = [self.answer.request.id] if self.answer else []
        return [*self.before.record.get("ledgers", []), *now]

    @property
    def record(self) -> Fields:
        """The fields stored besides text and tokens."""
        record: Fields = {"seams": self.seams, "ledgers": self.ledgers}
        if phrases := self.phrases:
            record["phrases"] = phrases
        if (private_from := self.before.record.get("private_from")) is not None:
            record["private_from"] = private_from
        if self.answer is not None:
            record["asked"] = self._asked(self.answer.request)
            if self.answer.away is not None:
                record["away"] = self.answer.away
            if self.answer.unsearched:
                record["unsearched"] = self.answer.unsearched
            if self.answer.found is not None:
                record |= sources(self.answer.found)
            if self.answer.citations:
                found = self.answer.citations
                record["citations"] = [asdict(each) | self._moved(each) for each in found]
        if self.ending is not None:
            end = self.end()
            record |= end if self.ending.problem else {"done": end}
        return with_localizable(record)

    def end(self) -> Fields:
        """The answer's end, as stored and shown."""
        assert self.ending is not None, "it has ended"
        if self.ending.problem is not None:
            return {**self.ending.problem.shown(), "ledgers": self.ledgers}
        answer, ledger = self.answer, self.answer.request.id if self.answer else None
        if self.ending.state == MessageState.STOPPED:
            asked = len(answer.request.conversation) if answer else 0
            return {
                "finish_reason": "cancelled",
                "ledger": ledger,
                "usage": _usage(asked, len(answer.tokens) if answer else 0),
                "dragon": {"participation": answer.participation if answer else []},
                "ledgers": self.ledgers,
            }
        assert answer is not None, "it was written"
        end = answer.end
        return {
            "finish_reason": end.reason,
            "ledger": ledger,
            "usage": _usage(end.prompt_tokens, end.completion_tokens),
            "dragon": {
                **end.stats,
                "participation": end.participation,
                "verdicts": end.verdicts,
                "trace": end.trace,
                "asked": self._asked(answer.request),
            },
            "ledgers": self.ledgers,
        }

    def _moved(self, part: TokenDetail | Citation) -> dict[str, int]:
        """The place in the whole text of a part of what is being written."""
        begun = len(self.before.text)
        return {"start": part.start + begun, "end": part.end + begun}

    def _asked(self, request: GenerationRequest) -> Fields:
        return {
            "mode": request.mode,
            "cloud": request.cloud,
            "temperature": request.sampling.temperature,
            "seed": request.sampling.seed,
            "left_out": self.left_out,
            "documents": request.documents,
            "model": self.model,
        }
