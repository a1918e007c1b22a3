"""`POST /v1/chat/completions` and `/v1/completions`, rendered whole or chunk by chunk."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.api.openai import replies
from app.api.openai.delivery import Choice, begun, best, choices_of, respond
from app.api.openai.logprobs import (
    ChatLogprobs,
    Pairing,
    TextLogprobs,
    chat_logprobs,
    prompt_logprobs,
    text_logprobs,
)
from app.api.openai.models import require_model
from app.api.openai.openapi import failures, streamed
from app.api.openai.parameters import chat_requests, completion_requests, reading_of
from app.api.openai.schemas import ChatBody, CompletionBody, GenerationBody, StreamOptions
from app.container import AppState, State
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PromptDetailed,
    TextDelta,
    TokenDetail,
)
from app.problems import Problem
from dragon.inference.reading import AnswerReader, Said, read

B = TypeVar("B", bound=GenerationBody)
Details = Sequence[TokenDetail]

router = APIRouter(tags=["completions"])

NOTHING = TextDelta("", ())


class Renderer(ABC, Generic[B]):
    """Renders one response, whole or chunk by chunk."""

    prefix: ClassVar[str]
    whole_type: ClassVar[Callable[..., replies.Reply]]
    chunk_type: ClassVar[Callable[..., replies.Reply]]
    logprobs: ClassVar[Callable[..., ChatLogprobs | TextLogprobs]]
    # Whether the prompt's tokens belong beside the choices, since all have the same prompt.
    one_prompt: ClassVar[bool]

    def __init__(self, body: B, requests: Sequence[GenerationRequest], state: AppState) -> None:
        generation = state.generation
        self.choices = choices_of(requests, body.prompts)
        self._body = body
        self._options = body.stream_options or StreamOptions()
        self._tokenizer = generation.tokenizer
        self._pairings = [Pairing() for _ in requests]
        self._fixed = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": generation.model_name,
            "system_fingerprint": generation.fingerprint(requests[0].mode),
        }

    def whole(self) -> bytes:
        kept = best(self.choices, self._body.prompts, self._body.n or 1)
        reply = self.whole_type(
            **self._fixed,
            choices=[self._complete(choice) for choice in kept],
            usage=self._usage(),
            dragon=replies.dragon_reply(kept, self._body.dragon),
            **(self._of_prompt(kept[0]) if self.one_prompt else {}),
        )
        return reply.model_dump_json().encode()

    def begin(self) -> Iterator[bytes]:
        """The first chunk of each choice, if it has one."""
        for choice in self.choices:
            if (opening := self._opening(choice)) is not None:
                ids = self._prompt_ids(choice) if self.one_prompt else None
                yield self._chunk(choice, opening, prompt_token_ids=ids)

    def take(self, index: int, event: Event) -> Iterator[bytes]:
        choice, body, pairing = self.choices[index], self._body, self._pairings[index]
        match event:
            case TextDelta() | Detailed() if body.top is not None:
                yield from self._scored(choice, pairing.take(event))
            case TextDelta(text=text) if text or body.return_token_ids:
                yield from self._more(choice, event)
            case PromptDetailed(details=details):
                for each in self.choices:
                    scores = self._scores(each, details) if each.first is choice.answer else None
                    if scores is not None:
                        yield self._chunk(each, scores)
            case Finished(reason=reason):
                yield from self._scored(choice, pairing.rest())
                dragon = replies.dragon_reply([choice], body.dragon, in_stream=True)
                yield self._chunk(choice, self._closing(choice, reason), dragon)
        wanted = body.wants_provenance if isinstance(event, Detailed) else body.dragon
        if wanted and (notice := replies.dragon_notice(index, event)):
            yield from self._rest(choice)
            yield self._chunk(choice, self._piece(choice), notice)

    def end(self) -> Iterator[bytes]:
        """Usage if requested, and the mark of a stream that succeeded."""
        if self._options.include_usage:
            reply = self.chunk_type(**self._fixed, choices=[], usage=self._usage())
            yield _frame(reply.model_dump_json().encode())
        yield b"data: [DONE]\n\n"

    def failed(self, found: Problem) -> bytes:
        """An error; neither a finish reason nor `[DONE]` follows it."""
        return _frame(orjson.dumps(found.body()))

    def _rest(self, choice: Choice) -> Iterator[bytes]:
        """Text held back, to be sent before a notice about the text so far."""
        return iter(())

    def _scored(
        self, choice: Choice, pairs: Iterator[tuple[TextDelta, list[TokenDetail]]]
    ) -> Iterator[bytes]:
        for delta, details in pairs:
            yield from self._more(choice, delta, details)

    def _more(
        self, choice: Choice, delta: TextDelta, details: Details | None = None
    ) -> Iterator[bytes]:
        """The chunk for more text."""
        yield self._chunk(choice, self._piece(choice, delta, details))

    def _chunk(
        self,
        choice: Choice,
        piece: BaseModel,
        dragon: replies.DragonReply | replies.DragonNotice | None = None,
        **fields: Any,
    ) -> bytes:
        """A chunk of a choice's stream; if usage is requested, every chunk has that field."""
        usage = None
        if self._options.continuous_usage_stats:
            read = choice.answer.request.prompt_tokens(self._tokenizer)
            usage = replies.CompletionUsage.of(read, len(choice.answer.tokens))
        reply = self.chunk_type(
            **self._fixed, choices=[piece], usage=usage, dragon=dragon, **fields
        )
        exclude = None if self._options.include_usage else {"usage"}
        return _frame(reply.model_dump_json(exclude=exclude).encode())

    def _usage(self) -> replies.CompletionUsage:
        """The total usage; a prompt counts once, however many choices it has."""
        ends = [choice.answer.end for choice in self.choices]
        read = sum(end.prompt_tokens for end in ends[:: len(ends) // self._body.prompts])
        return replies.CompletionUsage.of(read, sum(end.completion_tokens for end in ends))

    def _logprobs(self, details: Details) -> Any:
        most, by_id = self._body.top or 0, bool(self._body.return_tokens_as_token_ids)
        return self.logprobs(details, self._tokenizer, most=most, by_id=by_id)

    def _ids(self, tokens: Sequence[int]) -> list[int] | None:
        return list(tokens) if self._body.return_token_ids else None

    def _prompt_ids(self, choice: Choice) -> list[int] | None:
        return self._ids(choice.answer.request.prompt_ids(self._tokenizer))

    def _of_prompt(self, choice: Choice) -> dict[str, Any]:
        """The prompt's tokens and their log-probabilities, if requested.

        The latter are missing if the model was asked a rewritten question instead.
        """
        request, scored = choice.first.request, choice.first.prompt
        found, most = {"prompt_token_ids": self._prompt_ids(choice)}, self._body.prompt_logprobs
        if most is None or tuple(each.token for each in scored) != request.conversation:
            return found
        begun = request.prompt_tokens(self._tokenizer) - len(scored)
        logprobs = [*[None] * begun, *prompt_logprobs(scored, self._tokenizer, most)]
        return {**found, "prompt_logprobs": logprobs}

    @abstractmethod
    def _opening(self, choice: Choice) -> BaseModel | None:
        """The content of a choice's first chunk, if there is one."""

    @abstractmethod
    def _piece(
        self, choice: Choice, delta: TextDelta = NOTHING, details: Details | None = None
    ) -> BaseModel:
        """More text of a choice, with its tokens' log-probabilities if requested."""

    def _scores(self, choice: Choice, details: Details) -> BaseModel | None:
        """The prompt's log-probabilities, if requested and if its text was sent."""
        return None

    @abstractmethod
    def _closing(self, choice: Choice, reason: replies.FinishReason) -> BaseModel:
        """The end of a choice."""

    @abstractmethod
    def _complete(self, choice: Choice) -> BaseModel:
        """A whole choice."""


class ChatRenderer(Renderer[ChatBody]):
    """`/v1/chat/completions`: the role comes first, the last delta is empty."""

    prefix = "chatcmpl"
    whole_type = replies.ChatCompletion
    chunk_type = replies.ChatCompletionChunk
    logprobs = staticmethod(chat_logprobs)
    one_prompt = True

    def __init__(
        self, body: ChatBody, requests: Sequence[GenerationRequest], state: AppState
    ) -> None:
        super().__init__(body, requests, state)
        self._reading = reading_of(body, requests[0], self._tokenizer)
        self._readers = [AnswerReader(self._reading) for _ in requests]
        self._called: Counter[int] = Counter()

    def _opening(self, choice: Choice) -> BaseModel:
        return replies.ChunkChoice(
            index=choice.index, delta=replies.Delta(role="assistant", content="")
        )

    def _piece(
        self, choice: Choice, delta: TextDelta = NOTHING, details: Details | None = None
    ) -> BaseModel:
        said = self._readers[choice.index].push(delta.text) if delta.text else Said()
        return replies.ChunkChoice(
            index=choice.index,
            delta=self._delta(choice.index, said) if said else replies.Delta(content=""),
            logprobs=None if details is None else self._logprobs(details),
            token_ids=self._ids(delta.tokens),
        )

    def _delta(self, index: int, said: Said) -> replies.Delta:
        """The reasoning, text and calls that were added."""
        first = self._called[index]
        self._called[index] += len(said.calls)
        called = [
            replies.CallReply.of(call, number) for number, call in enumerate(said.calls, first)
        ]
        return replies.Delta(
            content=said.text or None,
            reasoning_content=said.reasoning or None,
            tool_calls=called or None,
        )

    def _closing(self, choice: Choice, reason: replies.FinishReason) -> BaseModel:
        delta = self._delta(choice.index, self._readers[choice.index].finish())
        reason = "tool_calls" if self._called[choice.index] else reason
        return replies.ChunkChoice(index=choice.index, delta=delta, finish_reason=reason)

    def _complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        said = read(answer.text, self._reading)
        called = [replies.CallReply.of(call) for call in said.calls]
        message = replies.ReplyMessage(
            content=(said.text or None) if called else said.text,
            reasoning_content=said.reasoning or None,
            tool_calls=called or None,
        )
        return replies.ChatChoice(
            index=choice.index,
            message=message,
            logprobs=None if self._body.top is None else self._logprobs(answer.details),
            finish_reason="tool_calls" if called else answer.end.reason,
            token_ids=self._ids(answer.tokens),
        )


class CompletionRenderer(Renderer[CompletionBody]):
    """`/v1/completions`. With `echo` the prompt comes first; the last text has the reason."""

    prefix = "cmpl"
    whole_type = replies.Completion
    chunk_type = replies.CompletionChunk
    logprobs = staticmethod(text_logprobs)
    one_prompt = False

    def __init__(
        self, body: CompletionBody, requests: Sequence[GenerationRequest], state: AppState
    ) -> None:
        super().__init__(body, requests, state)
        self._last: dict[int, replies.TextPiece] = {}

    def _opening(self, choice: Choice) -> BaseModel | None:
        if not (self._body.echo or self._body.return_token_ids):
            return None
        ids = self._prompt_ids(choice)
        return replies.TextPiece(
            index=choice.index, text=self._prompt(choice), prompt_token_ids=ids
        )

    def _more(
        self, choice: Choice, delta: TextDelta, details: Details | None = None
    ) -> Iterator[bytes]:
        if delta.last:
            self._last[choice.index] = self._piece(choice, delta, details)
        else:
            yield from super()._more(choice, delta, details)

    def _rest(self, choice: Choice) -> Iterator[bytes]:
        if (last := self._last.pop(choice.index, None)) is not None:
            yield self._chunk(choice, last)

    def _piece(
        self, choice: Choice, delta: TextDelta = NOTHING, details: Details | None = None
    ) -> replies.TextPiece:
        return replies.TextPiece(
            index=choice.index,
            text=delta.text,
            logprobs=None if details is None else self._logprobs(self._placed(choice, details)),
            token_ids=self._ids(delta.tokens),
        )

    def _scores(self, choice: Choice, details: Details) -> BaseModel | None:
        if self._body.top is None:
            return None
        return replies.TextPiece(index=choice.index, text="", logprobs=self._logprobs(details))

    def _closing(self, choice: Choice, reason: replies.FinishReason) -> BaseModel:
        last = self._last.pop(choice.index, replies.TextPiece(index=choice.index, text=""))
        return last.model_copy(update={"finish_reason": reason})

    def _complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        prompt = choice.first.prompt if self._body.echo else ()
        scored = [*prompt, *self._placed(choice, answer.details)]
        return replies.TextChoice(
            index=choice.index,
            text=self._prompt(choice) + answer.text,
            logprobs=None if self._body.top is None else self._logprobs(scored),
            finish_reason=answer.end.reason,
            token_ids=self._ids(answer.tokens),
            **self._of_prompt(choice),
        )

    def _prompt(self, choice: Choice) -> str:
        """The echoed prompt, with special tokens spelt out; empty without `echo`."""
        if not self._body.echo:
            return ""
        request = choice.answer.request
        return request.query or self._tokenizer.decode(request.conversation, special=True)

    def _placed(self, choice: Choice, details: Details) -> list[TokenDetail]:
        """Tokens of the answer at their offsets in the reply's text."""
        offset = len(self._prompt(choice))
        return [replace(detail, start=offset + detail.start) for detail in details]


def _frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


@router.post(
    "/v1/chat/completions",
    response_model=replies.ChatCompletion,
    responses={200: streamed(replies.ChatCompletionChunk), **failures(404, 502, 503)},
)
async def create_chat_completion(http: Request, body: ChatBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    renderer = ChatRenderer(body, await chat_requests(body, state), state)
    return await _respond(http, body, renderer, state)


@router.post(
    "/v1/completions",
    response_model=replies.Completion,
    responses={200: streamed(replies.CompletionChunk), **failures(404, 502, 503)},
)
async def create_completion(http: Request, body: CompletionBody, state: State) -> Response:
    """Continue one prompt or several, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    renderer = CompletionRenderer(body, await completion_requests(body, state), state)
    return await _respond(http, body, renderer, state)


async def _respond(http: Request, body: B, renderer: Renderer[B], state: AppState) -> Response:
    events = begun(state, renderer.choices, body.user)
    return await respond(http, events, renderer, stream=bool(body.stream))
