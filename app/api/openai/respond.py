"""Turns generations into an HTTP response, at once or as a stream of events."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass

import orjson
from fastapi import Request
from fastapi.responses import Response

from app.api.errors import INTERNAL, problem
from app.api.openai.renderers import Shape
from app.api.openai.responses import (
    DragonChoice,
    DragonNotice,
    DragonReply,
    PeerNotice,
    ProvenanceNotice,
    ProvenancePiece,
    SourceReply,
    TokenProvenance,
    Usage,
)
from app.api.openai.schemas import GenerationBody
from app.api.openai.sse import EventStream, unless_gone
from app.container import AppState
from app.generation.accumulator import Choice, best, merged
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    PromptDetailed,
    TextDelta,
    TokenDetail,
)

log = logging.getLogger("dragon.answers")
_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Job:
    """One request: its generations in the order of their choices, and how to answer.

    `prompts` counts the distinct prompts; the choices of a prompt stand together.
    """

    requests: Sequence[GenerationRequest]
    prompts: int
    shape: Shape
    stream: bool
    include_usage: bool
    show_dragon: bool
    show_provenance: bool
    kept: int  # choices of a prompt in the response: the best, of those that were written

    @classmethod
    def of(
        cls, body: GenerationBody, requests: Sequence[GenerationRequest], prompts: int, shape: Shape
    ) -> Job:
        """The job of a request's body."""
        return cls(
            requests,
            prompts,
            shape,
            stream=bool(body.stream),
            include_usage=body.include_usage,
            show_dragon=body.dragon is not None,
            show_provenance=body.wants_provenance,
            kept=body.n or 1,
        )


async def respond(http: Request, state: AppState, job: Job) -> Response:
    """Run the job. Bad input is raised before any response begins; a client gone ends the work.

    Raises `ClientDisconnect` when nobody is left to answer.
    """
    for request in job.requests:
        state.generation.check(request)  # all of them, before one begins
    events = merged(state.generate, job.requests)
    try:
        if job.stream:
            # The first event is awaited here, so that a refusal still gets its own status.
            first = await unless_gone(http.receive, anext(events))
            return EventStream(_frames(job, first, events), events)
        async with aclosing(events):
            return await unless_gone(http.receive, _whole(job, events))
    except BaseException:
        await events.aclose()
        raise


async def _frames(
    job: Job, first: tuple[int, Event], events: AsyncGenerator[tuple[int, Event], None]
) -> AsyncGenerator[bytes, None]:
    """The stream's events. An error is the last one: no finish reason and no `[DONE]` follow."""
    answers = [Choice(index, request) for index, request in enumerate(job.requests)]
    async with aclosing(events):
        try:
            for answer in answers:
                if (opening := job.shape.opening(answer)) is not None:
                    yield _event(job.shape.chunk(opening, with_usage=job.include_usage))
            for piece in _pieces(job, answers, first):
                yield piece
            async for item in events:
                for piece in _pieces(job, answers, item):
                    yield piece
            if job.include_usage:
                yield _event(job.shape.chunk(None, _usage(job, answers), with_usage=True))
        except Exception as error:
            found = problem(error)
            if found is INTERNAL:
                log.exception("an answer failed in mid-stream")
            yield _event(orjson.dumps(found.body()))
            return
    yield _DONE


def _pieces(job: Job, answers: Sequence[Choice], item: tuple[int, Event]) -> list[bytes]:
    index, event = item
    told = _take(job, answers, item)
    if isinstance(event, TextDelta) and event.text:
        piece = job.shape.piece(index, event.text)
        return [_event(job.shape.chunk(piece, with_usage=job.include_usage))]
    if isinstance(event, PromptDetailed):
        return [s for answer in told for s in _scores(job, answer, event.details, prompt=True)]
    if isinstance(event, Detailed):
        return [
            *_scores(job, answers[index], event.details),
            *_provenance(job, index, event.details),
        ]
    if isinstance(event, PeerChanged) and job.show_dragon:
        notice = DragonNotice(peer=PeerNotice(index=index, **asdict(event)))
        piece = job.shape.piece(index, "")
        return [_event(job.shape.chunk(piece, None, notice, with_usage=job.include_usage))]
    if isinstance(event, Finished):
        closing = job.shape.closing(index, event.reason)
        # Provenance went out with the text.
        dragon = _dragon([answers[index]], provenance=False) if job.show_dragon else None
        return [_event(job.shape.chunk(closing, None, dragon, with_usage=job.include_usage))]
    return []


def _take(job: Job, answers: Sequence[Choice], item: tuple[int, Event]) -> Sequence[Choice]:
    """Note an event; the choices it is about. Those of one prompt share its scores."""
    index, event = item
    choices = len(answers) // job.prompts if isinstance(event, PromptDetailed) else 1
    told = answers[index : index + choices]
    for answer in told:
        answer.take(event)
    return told


def _scores(
    job: Job, answer: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
) -> list[bytes]:
    piece = job.shape.scores(answer, details, prompt=prompt)
    return [] if piece is None else [_event(job.shape.chunk(piece, with_usage=job.include_usage))]


def _provenance(job: Job, index: int, details: Sequence[TokenDetail]) -> list[bytes]:
    if not job.show_provenance:
        return []
    piece = ProvenancePiece(index=index, tokens=_origins(details))
    notice = ProvenanceNotice(provenance=piece)
    empty = job.shape.piece(index, "")
    return [_event(job.shape.chunk(empty, None, notice, with_usage=job.include_usage))]


def _origins(details: Sequence[TokenDetail], sources: int = 0) -> list[TokenProvenance]:
    """Sources found after a token was written had no share in it."""
    found = [TokenProvenance.model_validate(detail.provenance()) for detail in details]
    for token in found:
        token.documents += [0.0] * (sources - len(token.documents))
    return found


async def _whole(job: Job, events: AsyncGenerator[tuple[int, Event], None]) -> Response:
    answers = [Choice(index, request) for index, request in enumerate(job.requests)]
    async for item in events:
        _take(job, answers, item)
    usage = _usage(job, answers)
    answers = best(answers, job.prompts, job.kept)
    dragon = _dragon(answers, provenance=job.show_provenance) if job.show_dragon else None
    return Response(job.shape.whole(answers, usage, dragon), media_type="application/json")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _usage(job: Job, answers: Sequence[Choice]) -> Usage:
    """A prompt counts once, however many choices it has."""
    choices = len(answers) // job.prompts
    prompt = sum(answer.end.prompt_tokens for answer in answers[::choices])
    completion = sum(answer.end.completion_tokens for answer in answers)
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )


def _dragon(answers: Sequence[Choice], *, provenance: bool) -> DragonReply:
    request = answers[0].request
    document_tokens = sum(int(a.end.stats.get("document_tokens", 0)) for a in answers)
    return DragonReply(
        aggregation=request.mode.value,
        seed=request.sampling.seed,
        usage={"document_tokens": document_tokens},
        choices=[
            DragonChoice(
                index=answer.index,
                ledger=answer.request.id,
                sources=[SourceReply(**asdict(source)) for source in answer.sources],
                nothing_relevant=answer.found.nothing_relevant,
                unread_documents=answer.found.unread_documents,
                hops=list(answer.end.hops),
                participation=list(answer.end.participation),
                verdicts=answer.end.verdicts,
                stats=dict(answer.end.stats),
                provenance=(_origins(answer.details, len(answer.sources)) if provenance else None),
            )
            for answer in answers
        ],
    )
