"""How an answer is to be written, and what the peer is told of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from app.generation.events import GenerationRequest, Source, SourcesFound
from dragon.inference.rows import Row
from dragon.inference.weighting import Rescoring, Weights
from dragon.link import control


@dataclass(frozen=True)
class Retrieved:
    """Rows of this side, and the documents behind them; none behind a bare row.

    `nothing_relevant`: documents were looked for in vain. `unread_documents` were not looked into.
    """

    rows: Sequence[Row]
    sources: Sequence[Source]
    rescoring: Rescoring | None = None
    nothing_relevant: bool = False
    unread_documents: int = 0

    def weighted(self) -> list[Source]:
        """The documents with their shares; those concatenated in one row have its share."""
        weights = Weights.of([row.relevance for row in self.rows]).rows.tolist()
        weights *= max(1, len(self.sources) // len(self.rows))
        return [replace(s, weight=w) for s, w in zip(self.sources, weights, strict=False)]

    def found(self) -> SourcesFound:
        """What is told of the documents of this side."""
        return SourcesFound(tuple(self.weighted()), self.nothing_relevant, self.unread_documents)


@dataclass(frozen=True)
class Plan:
    """How to write: documents a side, token limit, seconds to wait for the cloud's first token.

    `rescore_every` so many tokens both sides weigh their documents anew, unless it is 0.
    """

    top_k: int
    limit: int
    deadline: float | None
    catch_up: bool
    rescore_every: int


def opening(request: GenerationRequest, plan: Plan) -> control.Open:
    """What the peer is told of a request."""
    return control.Open(
        conversation=request.conversation,
        raw=request.raw,
        query=request.query,
        judged=request.judged,
        mode=request.mode,
        **asdict(request.sampling),
        details=None if request.details is None else request.details.top,
        max_tokens=plan.limit,
        top_k=plan.top_k,
        catch_up=plan.catch_up,
        schedule=request.schedule,
        rescore_every=plan.rescore_every,
    )


def prompt_scoring(request: GenerationRequest, plan: Plan) -> control.ScoreText:
    """Scores the prompt as it stands: bias, penalties and re-scoring are of the answer."""
    return control.ScoreText(
        conversation=request.conversation[:1],
        text=request.conversation[1:],
        raw=request.raw,
        query=request.query,
        judged=request.judged,
        top_k=plan.top_k,
        prompt=len(request.conversation),
        max_tokens=plan.limit,
    )


def answer_scoring(
    request: GenerationRequest, plan: Plan, tokens: tuple[int, ...]
) -> control.ScoreText:
    """Scores an answer that was written whole."""
    sampling = request.sampling
    return control.ScoreText(
        conversation=request.conversation,
        text=tokens,
        raw=request.raw,
        query=request.query,
        judged=request.judged,
        top_k=plan.top_k,
        prompt=len(request.conversation),
        max_tokens=plan.limit,
        rescore_every=plan.rescore_every,
        logit_bias=sampling.logit_bias,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
    )
