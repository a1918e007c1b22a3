"""Pure renderers of an endpoint's responses, from answers and their pieces."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import BaseModel

from app.api.openai.choices import Choice
from app.api.openai.logprobs import chat_logprobs, text_logprobs
from app.api.openai.responses import (
    CallReply,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChunkChoice,
    Completion,
    Delta,
    Dragon,
    DragonReply,
    FinishReason,
    Reply,
    ReplyMessage,
    TextChoice,
    Usage,
)
from app.api.openai.schemas import ChatBody, GenerationBody
from app.api.openai.tools import read_by
from app.generation.events import TokenDetail
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import CallReader, ToolCall, read


class Renderer(ABC):
    """One response: its fixed part, and its choices by index, whole or piece by piece."""

    prefix: str
    whole_type: Callable[..., Reply]
    chunk_type: Callable[..., Reply]

    def __init__(
        self,
        body: GenerationBody,
        tokenizer: Tokenizer,
        fingerprint: str,
        *,
        logprobs: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._logprobs = logprobs
        self._token_ids = bool(body.return_token_ids)
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = body.model

    @abstractmethod
    def opening(self, choice: Choice) -> BaseModel | None:
        """The first chunk of a choice's stream, if there is one."""

    @abstractmethod
    def piece(self, index: int, text: str, tokens: Sequence[int] = ()) -> BaseModel:
        """More text of a choice, and the tokens that brought it."""

    @abstractmethod
    def scores(
        self, choice: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        """Log-probabilities of tokens whose text was sent, if they were asked for."""

    @abstractmethod
    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        """The end of a choice."""

    @abstractmethod
    def complete(self, choice: Choice) -> BaseModel:
        """A whole choice."""

    def whole(self, choices: Sequence[Choice], usage: Usage, dragon: DragonReply | None) -> bytes:
        """The response of a call without `stream`."""
        whole = [self.complete(choice) for choice in choices]
        reply = self._reply(self.whole_type, whole, usage, dragon, self.prompt(choices[0]))
        return reply.model_dump_json().encode()

    def chunk(
        self,
        choice: BaseModel | None,
        usage: Usage | None = None,
        dragon: Dragon | None = None,
        prompt: list[int] | None = None,
        *,
        with_usage: bool,
    ) -> bytes:
        """A chunk of a stream. With `with_usage` each has the field `usage`."""
        choices = [] if choice is None else [choice]
        reply = self._reply(self.chunk_type, choices, usage, dragon, prompt)
        return reply.model_dump_json(exclude=None if with_usage else {"usage"}).encode()

    def _reply(
        self,
        kind: Callable[..., Reply],
        choices: Sequence[BaseModel],
        usage: Usage | None,
        dragon: Dragon | None,
        prompt: list[int] | None,
    ) -> Reply:
        return kind(
            id=self._id,
            created=self._created,
            model=self._model,
            system_fingerprint=self._fingerprint,
            choices=list(choices),
            usage=usage,
            prompt_token_ids=prompt,
            dragon=dragon,
        )

    def prompt(self, choice: Choice) -> list[int] | None:
        """The prompt's tokens, where they stand beside the choices and were asked for."""
        return None

    def _ids(self, tokens: Sequence[int]) -> list[int] | None:
        return list(tokens) if self._token_ids else None


class ChatRenderer(Renderer):
    """`/v1/chat/completions`: the role comes first, the last delta is empty."""

    prefix = "chatcmpl"
    whole_type = ChatCompletion
    chunk_type = ChatCompletionChunk

    def __init__(
        self,
        body: ChatBody,
        tokenizer: Tokenizer,
        fingerprint: str,
        *,
        logprobs: bool = False,
    ) -> None:
        super().__init__(body, tokenizer, fingerprint, logprobs=logprobs)
        self._form = read_by(body, tokenizer)
        self._readers: dict[int, CallReader] = {}  # of choices that are streamed
        self._called: Counter[int] = Counter()

    def opening(self, choice: Choice) -> BaseModel:
        return ChunkChoice(index=choice.index, delta=Delta(role="assistant", content=""))

    def prompt(self, choice: Choice) -> list[int] | None:
        return self._ids(choice.answer.request.prompt_ids(self._tokenizer))

    def piece(self, index: int, text: str, tokens: Sequence[int] = ()) -> BaseModel:
        delta = Delta(content=text)
        if self._form is not None and text:
            reader = self._readers.setdefault(index, CallReader(self._form))
            delta = self._delta(index, *reader.push(text))
        return ChunkChoice(index=index, delta=delta, token_ids=self._ids(tokens))

    def _delta(self, index: int, text: str, calls: Sequence[ToolCall]) -> Delta:
        """What more was said and called."""
        first = self._called[index]
        self._called[index] += len(calls)
        called = [CallReply.of(call, number) for number, call in enumerate(calls, first)]
        return Delta(content=text or None, tool_calls=called or None)

    def scores(
        self, choice: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        if not self._logprobs:
            return None
        logprobs = chat_logprobs(details, self._tokenizer)
        return ChunkChoice(index=choice.index, delta=Delta(content=""), logprobs=logprobs)

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        delta = Delta()
        if (reader := self._readers.get(index)) is not None:
            delta = self._delta(index, *reader.finish())
            reason = "tool_calls" if self._called[index] else reason
        return ChunkChoice(index=index, delta=delta, finish_reason=reason)

    def complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        message, reason = ReplyMessage(content=answer.text), answer.end.reason
        if self._form is not None:
            text, calls = read(answer.text, self._form)
            if calls:
                called = [CallReply.of(call) for call in calls]
                message = ReplyMessage(content=text or None, tool_calls=called)
        return ChatChoice(
            index=choice.index,
            message=message,
            logprobs=chat_logprobs(answer.details, self._tokenizer) if self._logprobs else None,
            finish_reason="tool_calls" if message.tool_calls else reason,
            token_ids=self._ids(answer.tokens),
        )


class CompletionRenderer(Renderer):
    """`/v1/completions`. With `echo` the prompt comes first."""

    prefix = "cmpl"
    whole_type = chunk_type = Completion

    def __init__(
        self,
        body: GenerationBody,
        tokenizer: Tokenizer,
        fingerprint: str,
        *,
        logprobs: bool = False,
        echo: bool = False,
    ) -> None:
        super().__init__(body, tokenizer, fingerprint, logprobs=logprobs)
        self._echo = echo

    def opening(self, choice: Choice) -> BaseModel | None:
        if not (self._echo or self._token_ids):
            return None
        ids = self._ids(choice.answer.request.prompt_ids(self._tokenizer))
        return TextChoice(index=choice.index, text=self._prompt(choice), prompt_token_ids=ids)

    def piece(self, index: int, text: str, tokens: Sequence[int] = ()) -> BaseModel:
        return TextChoice(index=index, text=text, token_ids=self._ids(tokens))

    def scores(
        self, choice: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        if not self._logprobs:
            return None
        placed = details if prompt else self._placed(choice, details)
        logprobs = text_logprobs(placed, self._tokenizer)
        return TextChoice(index=choice.index, text="", logprobs=logprobs)

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        return TextChoice(index=index, text="", finish_reason=reason)

    def complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        scored = [*choice.first.prompt, *self._placed(choice, answer.details)]
        return TextChoice(
            index=choice.index,
            text=self._prompt(choice) + answer.text,
            logprobs=text_logprobs(scored, self._tokenizer) if self._logprobs else None,
            finish_reason=answer.end.reason,
            token_ids=self._ids(answer.tokens),
            prompt_token_ids=self._ids(answer.request.prompt_ids(self._tokenizer)),
        )

    def _prompt(self, choice: Choice) -> str:
        """What stands before the answer's own text: a completion's query is its prompt."""
        return choice.answer.request.query if self._echo else ""

    def _placed(self, choice: Choice, details: Sequence[TokenDetail]) -> list[TokenDetail]:
        """Tokens of the answer where they stand in the reply's text."""
        offset = len(self._prompt(choice))
        return [replace(detail, start=offset + detail.start) for detail in details]
