"""Turns generations into an HTTP response, at once or as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import orjson
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.api.openai import dragon_fields
from app.api.openai.choices import Choice, best
from app.api.openai.delivery import Events, as_stream, at_once, begun
from app.api.openai.logprobs import Pairing
from app.api.openai.renderers import Renderer
from app.api.openai.responses import Dragon, Usage
from app.api.openai.schemas import GenerationBody
from app.container import AppState
from app.generation.accumulator import AnswerState
from app.generation.events import (
    Cited,
    Detailed,
    Event,
    Finished,
    PeerChanged,
    PromptDetailed,
    TextDelta,
    TokenDetail,
)
from app.problems import reported

_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Call:
    """One API call: its body, its choices, its number of distinct prompts, and its renderer."""

    body: GenerationBody
    choices: Sequence[Choice]
    prompts: int
    renderer: Renderer


async def respond(http: Request, state: AppState, call: Call) -> Response:
    """Answer the call. Bad input is raised before the response begins.

    Raises `ClientDisconnect`, ending the work, if the client is gone.
    """
    events = begun(state, [choice.answer for choice in call.choices], call.body.user)
    if call.body.stream:
        return await as_stream(http, events, partial(_frames, call))
    return await at_once(http, events, partial(_whole, call))


def _whole(call: Call) -> bytes:
    kept = best(call.choices, call.prompts, call.body.n or 1)
    dragon = None
    if call.body.dragon is not None:
        dragon = dragon_fields.reply(kept, provenance=call.body.dragon.provenance)
    return call.renderer.whole(kept, _usage(call), dragon)


async def _frames(call: Call, events: Events) -> AsyncGenerator[bytes, None]:
    """The stream's events. An error is the last one: no finish reason and no `[DONE]` follow."""
    async with aclosing(events):
        try:
            for choice in call.choices:
                if (opening := call.renderer.opening(choice)) is not None:
                    prompt = call.renderer.prompt(choice)
                    usage = call.body.include_usage or call.body.usage_of_each
                    so_far = None
                    if call.body.usage_of_each:
                        so_far = _usage_of(call, choice.answer)
                    chunk = call.renderer.chunk(opening, so_far, prompt=prompt, with_usage=usage)
                    yield _frame(chunk)
            pairs = [Pairing() for _ in call.choices]
            async for index, event in events:
                for chunk in _chunks(call, index, event, pairs[index]):
                    yield chunk
            if call.body.include_usage:
                yield _frame(call.renderer.chunk(None, _usage(call), with_usage=True))
        except Exception as error:
            found = reported(error, "an answer in mid-stream")
            yield _frame(orjson.dumps(found.body()))
            return
    yield _DONE


def _paired(
    call: Call, index: int, pairs: Iterator[tuple[TextDelta, list[TokenDetail]]]
) -> Iterator[bytes]:
    for piece, details in pairs:
        choice = call.renderer.piece(call.choices[index], piece.text, piece.tokens, details)
        yield _chunk(call, index, choice)


def _chunks(call: Call, index: int, event: Event, pairing: Pairing) -> Iterator[bytes]:
    """The chunks that an event of a choice makes."""
    choice, renderer = call.choices[index], call.renderer
    if renderer.logprobs and isinstance(event, TextDelta | Detailed):
        yield from _paired(call, index, pairing.take(event))
    match event:
        case TextDelta(text=text, tokens=tokens) if not renderer.logprobs:
            if text or call.body.return_token_ids:
                yield _chunk(call, index, renderer.piece(choice, text, tokens))
        case PromptDetailed(details=details):
            for each in call.choices:
                scores = renderer.scores(each, details) if each.first is choice.answer else None
                if scores is not None:
                    yield _chunk(call, each.index, scores)
        case Detailed(details=details) if call.body.wants_provenance:
            yield _notice(call, index, dragon_fields.provenance_notice(index, details))
        case Cited(citations=citations) if call.body.dragon is not None:
            yield _notice(call, index, dragon_fields.citation_notice(index, citations))
        case PeerChanged() if call.body.dragon is not None:
            yield _notice(call, index, dragon_fields.peer_notice(index, event))
        case Finished(reason=reason):
            yield from _paired(call, index, pairing.rest())
            # Provenance was sent with the text.
            wanted = call.body.dragon is not None
            dragon = dragon_fields.reply([choice], provenance=False) if wanted else None
            yield _chunk(call, index, renderer.closing(choice, reason), dragon)


def _notice(call: Call, index: int, notice: Dragon) -> bytes:
    return _chunk(call, index, call.renderer.piece(call.choices[index], ""), notice)


def _chunk(call: Call, index: int, choice: BaseModel, dragon: Dragon | None = None) -> bytes:
    usage = _usage_of(call, call.choices[index].answer) if call.body.usage_of_each else None
    with_usage = call.body.include_usage or call.body.usage_of_each
    return _frame(call.renderer.chunk(choice, usage, dragon, with_usage=with_usage))


def _usage_of(call: Call, answer: AnswerState) -> Usage:
    """The tokens an answer has used so far."""
    prompt, written = answer.request.prompt_tokens(call.renderer.tokenizer), len(answer.tokens)
    return Usage(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)


def _frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _usage(call: Call) -> Usage:
    """The total usage; a prompt counts once, however many choices it has."""
    ends = [choice.answer.end for choice in call.choices]
    prompt = sum(end.prompt_tokens for end in ends[:: len(ends) // call.prompts])
    completion = sum(end.completion_tokens for end in ends)
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )
