"""The plan of an answer, and the requests that ask the peer to take part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.generation.events import GenerationRequest, Source, SourcesFound
from dragon.inference.rows import Row
from dragon.inference.weighting import Rescoring, Weights, shared
from dragon.link import control
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.relevance import BARE_RELEVANCE, LEAST
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import Budget


@dataclass(frozen=True)
class Retrieved:
    """Rows of this side, and the documents behind them; none behind a bare row.

    `answers`: they were judged to answer the question on their own. `nothing_relevant`: the search
    found none that does. `unread_documents` could not be searched yet. `passages` are the digests
    of those with a tracked budget. `closest` come nearest apart from the sources. `premise` holds
    the tokens of a line that the question leans on, if public documents are to answer it.
    """

    rows: Sequence[Row]
    sources: Sequence[Source]
    rescoring: Rescoring | None = None
    answers: bool = False
    passages: Sequence[str] = ()
    nothing_relevant: bool = False
    unread_documents: int = 0
    closest: Sequence[Source] = ()
    premise: tuple[int, ...] = ()

    def referring(self, bare: Sequence[int]) -> Retrieved:
        """Add a bare row of no weight at the end, for the distribution without passages."""
        rows = self.rows if not self.sources else [*self.rows, Row(tuple(bare), -math.inf)]
        return replace(self, rows=rows, rescoring=None)

    def begun(self) -> Retrieved:
        """For an answer that begins with the premise, and ends there if the cloud finds nothing.

        So its rows weigh less than any line that answers, and more than a bare row.
        """
        rows = [replace(row, relevance=(BARE_RELEVANCE + LEAST) / 2) for row in self.rows]
        return replace(self, rows=rows, answers=False)

    @property
    def declines(self) -> bool:
        """Whether this side alone could only say that it found no answer."""
        return not self.sources and bool(self.rows[0].quotes)

    def found(self) -> SourcesFound:
        """The documents with their weights; those in one row share the row's."""
        weights = Weights.of([row.relevance for row in self.rows]).rows.tolist()
        shares = shared(weights, len(self.sources))
        sources = [replace(s, weight=w) for s, w in zip(self.sources, shares, strict=False)]
        return SourcesFound(
            tuple(sources),
            self.nothing_relevant,
            self.unread_documents,
            tuple(self.closest),
            declines=self.declines,
        )


@dataclass(frozen=True)
class Plan:
    """The parameters of writing an answer.

    `top_k` documents per side, `deadline` seconds to wait for the cloud (None is no limit). Both
    sides re-score their documents every `rescore_every` tokens, unless it is 0; a unit of cosine is
    worth `slope` nats there, and in a text to continue. A cloud whose weight is below
    `least_weight`, 0 to 1, is dropped. Its passages are cited by numbers from `cloud_citations` on;
    None if passages are not cited. With a `budget` the device draws within it.
    """

    top_k: int
    deadline: float | None
    catch_up: bool
    rescore_every: int
    slope: float
    schedule: Schedule = Schedule.GREEDY
    certificates: bool = True
    least_weight: float = 0.0
    cloud_citations: int | None = None
    budget: Budget | None = None


def opening(
    given: GenerationRequest, plan: Plan, committed: tuple[int, ...], lane: int, *, joint: bool
) -> control.Open:
    """The request to take part from `committed` on; at once if `joint`. Nothing may be hidden."""
    assert not given.hides, "the cloud is asked with its own part only"
    return control.Open(
        committed=committed,
        lane=lane,
        joint=joint,
        conversation=given.shown,
        raw=given.raw,
        begins=given.begins,
        query=given.asked,
        premise=given.premise,
        judged=given.judged,
        mode=given.mode,
        sampling=given.sampling,
        details=given.details is not None,
        max_tokens=given.limit,
        top_k=plan.top_k,
        catch_up=plan.catch_up,
        schedule=plan.schedule,
        rescore_every=plan.rescore_every,
        slope=plan.slope,
    )


def scoring_request(
    request: GenerationRequest,
    plan: Plan,
    before: tuple[int, ...],
    text: tuple[int, ...],
    *,
    rescore_every: int = 0,
    sampling: Sampling = Sampling(),
) -> control.ScoreText:
    """The request to score a text; re-scoring and changed logits (`sampling`) are for answers."""
    return control.ScoreText(
        conversation=before,
        text=text,
        raw=request.raw,
        begins=request.begins,
        query=request.asked,
        premise=request.premise,
        judged=request.judged,
        top_k=plan.top_k,
        rescore_every=rescore_every,
        slope=plan.slope,
        sampling=sampling,
        prompt=len(request.shown),
        max_tokens=request.limit,
    )
