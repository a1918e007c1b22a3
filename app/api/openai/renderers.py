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
from app.api.openai.logprobs import ChatLogprobs, TextLogprobs, chat_logprobs, text_logprobs
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
from app.api.openai.tools import reading_of
from app.generation.events import TokenDetail
from dragon.inference.reading import AnswerReader, Reading, Said, read
from dragon.inference.tokenizer import Tokenizer


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
        model: str,
        *,
        logprobs: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._logprobs = logprobs
        self._named_by_id = bool(body.return_tokens_as_token_ids)
        self._token_ids = bool(body.return_token_ids)
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model

    @abstractmethod
    def opening(self, choice: Choice) -> BaseModel | None:
        """The first chunk of a choice's stream, if there is one."""

    @abstractmethod
    def piece(
        self,
        choice: Choice,
        text: str,
        tokens: Sequence[int] = (),
        details: Sequence[TokenDetail] | None = None,
    ) -> BaseModel:
        """More text of a choice, the tokens it came from, and their log-probabilities."""

    def scores(self, choice: Choice, details: Sequence[TokenDetail]) -> BaseModel | None:
        """Log-probabilities of the prompt, whose text was sent, if requested."""
        return None

    @property
    def logprobs(self) -> bool:
        """Whether tokens come with their log-probabilities."""
        return self._logprobs

    @abstractmethod
    def closing(self, choice: Choice, reason: FinishReason) -> BaseModel:
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
        """A chunk of a stream. With `with_usage` every chunk has the field `usage`."""
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
        """The prompt's tokens, if requested and if their place is beside the choices."""
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
        model: str,
        *,
        logprobs: bool = False,
    ) -> None:
        super().__init__(body, tokenizer, fingerprint, model, logprobs=logprobs)
        self._body = body
        self._readers: dict[int, AnswerReader] = {}  # of streamed choices
        self._called: Counter[int] = Counter()

    def opening(self, choice: Choice) -> BaseModel:
        return ChunkChoice(index=choice.index, delta=Delta(role="assistant", content=""))

    def prompt(self, choice: Choice) -> list[int] | None:
        return self._ids(choice.answer.request.prompt_ids(self.tokenizer))

    def piece(
        self,
        choice: Choice,
        text: str,
        tokens: Sequence[int] = (),
        details: Sequence[TokenDetail] | None = None,
    ) -> BaseModel:
        said = self._reader(choice).push(text) if text else Said()
        logprobs = None if details is None else self._scored(details)
        delta = self._delta(choice.index, said) if said else Delta(content="")
        return ChunkChoice(
            index=choice.index, delta=delta, logprobs=logprobs, token_ids=self._ids(tokens)
        )

    def _reader(self, choice: Choice) -> AnswerReader:
        if (reader := self._readers.get(choice.index)) is None:
            reader = self._readers[choice.index] = AnswerReader(self._reading(choice))
        return reader

    def _reading(self, choice: Choice) -> Reading:
        return reading_of(self._body, choice.answer.request, self.tokenizer)

    def _delta(self, index: int, said: Said) -> Delta:
        """What was added: reasoning, text and calls."""
        first = self._called[index]
        self._called[index] += len(said.calls)
        called = [CallReply.of(call, number) for number, call in enumerate(said.calls, first)]
        return Delta(
            content=said.text or None,
            reasoning_content=said.reasoning or None,
            tool_calls=called or None,
        )

    def _scored(self, details: Sequence[TokenDetail]) -> ChatLogprobs:
        return chat_logprobs(details, self.tokenizer, by_id=self._named_by_id)

    def closing(self, choice: Choice, reason: FinishReason) -> BaseModel:
        delta = self._delta(choice.index, self._reader(choice).finish())
        reason = "tool_calls" if self._called[choice.index] else reason
        return ChunkChoice(index=choice.index, delta=delta, finish_reason=reason)

    def complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        said = read(answer.text, self._reading(choice))
        called = [CallReply.of(call) for call in said.calls]
        message = ReplyMessage(
            content=(said.text or None) if called else said.text,
            reasoning_content=said.reasoning or None,
            tool_calls=called or None,
        )
        return ChatChoice(
            index=choice.index,
            message=message,
            logprobs=self._scored(answer.details) if self._logprobs else None,
            finish_reason="tool_calls" if called else answer.end.reason,
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
        model: str,
        *,
        logprobs: bool = False,
        echo: bool = False,
    ) -> None:
        super().__init__(body, tokenizer, fingerprint, model, logprobs=logprobs)
        self._echo = echo

    def opening(self, choice: Choice) -> BaseModel | None:
        if not (self._echo or self._token_ids):
            return None
        ids = self._ids(choice.answer.request.prompt_ids(self.tokenizer))
        return TextChoice(index=choice.index, text=self._prompt(choice), prompt_token_ids=ids)

    def piece(
        self,
        choice: Choice,
        text: str,
        tokens: Sequence[int] = (),
        details: Sequence[TokenDetail] | None = None,
    ) -> BaseModel:
        logprobs = None if details is None else self._scored(self._placed(choice, details))
        return TextChoice(
            index=choice.index, text=text, logprobs=logprobs, token_ids=self._ids(tokens)
        )

    def scores(self, choice: Choice, details: Sequence[TokenDetail]) -> BaseModel | None:
        if not self._logprobs:
            return None
        return TextChoice(index=choice.index, text="", logprobs=self._scored(details))

    def _scored(self, details: Sequence[TokenDetail]) -> TextLogprobs:
        return text_logprobs(details, self.tokenizer, by_id=self._named_by_id)

    def closing(self, choice: Choice, reason: FinishReason) -> BaseModel:
        return TextChoice(index=choice.index, text="", finish_reason=reason)

    def complete(self, choice: Choice) -> BaseModel:
        answer = choice.answer
        scored = [*choice.first.prompt, *self._placed(choice, answer.details)]
        return TextChoice(
            index=choice.index,
            text=self._prompt(choice) + answer.text,
            logprobs=self._scored(scored) if self._logprobs else None,
            finish_reason=answer.end.reason,
            token_ids=self._ids(answer.tokens),
            prompt_token_ids=self._ids(answer.request.prompt_ids(self.tokenizer)),
        )

    def _prompt(self, choice: Choice) -> str:
        """What precedes the answer's own text: a completion's query is its prompt."""
        return choice.answer.request.query if self._echo else ""

    def _placed(self, choice: Choice, details: Sequence[TokenDetail]) -> list[TokenDetail]:
        """Tokens of the answer at their offsets in the reply's text."""
        offset = len(self._prompt(choice))
        return [replace(detail, start=offset + detail.start) for detail in details]
