"""Requests in OpenAI's shapes, checked strictly: what is not honoured is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from app.api.openai.field_types import (
    PROMPT,
    Limit,
    LogitBias,
    MinP,
    Names,
    Penalty,
    Repetition,
    Seed,
    Stop,
    Str,
    Strict,
    Temperature,
    Top,
    TopK,
    TopP,
    invalid,
    neutral,
    text_of_parts,
)
from app.api.openai.structured import ResponseFormat, held_to
from app.api.openai.tools import MAX_TOOLS, CallBody, OfAnAssistant, ToolChoice, Tools
from app.api.parameters import MAX_HOPS
from app.generation.events import Details
from app.settings import Cloud
from dragon.inference.tokenizer import Message
from dragon.protocol.messages import MAX_TOKENS
from dragon.sampling.params import MAX_GRAMMAR, Mode

MAX_CHOICES = 32
MAX_INPUTS = 2048
MAX_TURNS = 2048
MAX_TEXT = 300_000
"""Characters, or ids, that are tokenized or put together at a time."""


class DragonOptions(Strict):
    """Our own parameters. Sending the object, even empty, asks for `dragon` in the response.

    `documents` (ids) and `collections` (names) limit which of the person's documents may be used.
    `cloud` says when the cloud is asked to take part; `private` is short for never. `hops` is for
    chats: where a sentence leaves words of the question open and names what the other side knows
    more about, the answer continues with that, so often at most; 0 ends it there. Unless it is
    given, the cloud is not sent words of the person's documents for that. `epsilon` bounds what the
    cloud can learn of the passages used from the words it is sent. The answer is held to a
    `grammar` in Lark or GBNF, or to a `regex`. With `wait` its first token waits for the cloud,
    however long that takes.
    """

    aggregation: Annotated[Mode | None, Field(strict=False)] = None
    top_k: Annotated[int, Field(ge=0, le=32)] | None = None
    private: bool = False
    cloud: Annotated[Cloud | None, Field(strict=False)] = None
    documents: Names | None = None
    collections: Names | None = None
    provenance: bool = False
    wait: bool = False
    hops: Annotated[int, Field(ge=0, le=MAX_HOPS)] | None = None
    epsilon: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    grammar: Annotated[Str, Field(min_length=1, max_length=MAX_GRAMMAR)] | None = None
    regex: Annotated[Str, Field(min_length=1, max_length=MAX_GRAMMAR)] | None = None

    @field_validator("regex")
    @classmethod
    def _only_one(cls, regex: str | None, info: ValidationInfo) -> str | None:
        if regex is not None and info.data.get("grammar") is not None:
            raise invalid("contradicts grammar; send one of them")
        return regex


class StreamOptions(Strict):
    """What a stream carries beside the text."""

    include_usage: bool = False
    # Padding against traffic analysis: OpenAI's clients may send either value.
    include_obfuscation: bool | None = None


class GenerationBody(Strict):
    """What completions and chat completions share."""

    # What the parameter is called that `response_format` comes from.
    FORMAT: ClassVar[str] = "response_format"

    model: Str
    temperature: Temperature | None = None
    top_p: TopP | None = None
    seed: Seed | None = None
    max_tokens: Limit | None = None
    stop: Stop = Field(default_factory=list)
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    dragon: DragonOptions | None = None
    # Names of the caller's own; they change nothing.
    user: str | None = None

    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None

    # As vLLM spells them.
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: Repetition | None = None
    min_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None

    response_format: ResponseFormat | None = None

    @field_validator("stream_options")
    @classmethod
    def _only_in_streams(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise invalid("only allowed when stream is true")
        return options

    @field_validator("truncate_prompt_tokens")
    @classmethod
    def _some_are_left(cls, tokens: int | None) -> int | None:
        if tokens == 0:
            raise invalid("a number of tokens, or -1 for as many as the model takes")
        return tokens

    @property
    def least_tokens(self) -> int:
        """Before so many tokens nothing ends the answer."""
        return MAX_TOKENS if self.ignore_eos else self.min_tokens or 0

    def grammar(self) -> tuple[str, str]:
        """What the answer is held to, and which parameter says so; see `held_to`."""
        own = self.dragon or DragonOptions()
        return held_to(self.FORMAT, self.response_format, own.grammar, own.regex)

    @property
    def wants_provenance(self) -> bool:
        """Whether the response says where each token comes from."""
        return self.dragon is not None and self.dragon.provenance

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(GenerationBody):
    """`POST /v1/completions`. The model reads `prompt` as it stands, without a template."""

    prompt: Annotated[
        list[str] | list[list[int]],
        Field(max_length=MAX_CHOICES),
        PROMPT,
    ]

    max_tokens: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    echo: Annotated[bool | None, Field(validate_default=True)] = None
    logprobs: Top | None = None
    suffix: Annotated[Any, neutral("")] = None

    @field_validator("best_of")
    @classmethod
    def _enough_of_them(cls, best_of: int | None, info: ValidationInfo) -> int | None:
        if best_of is not None and best_of < (info.data.get("n") or 1):
            raise invalid("must be at least n")
        if best_of is not None and best_of > (info.data.get("n") or 1) and info.data.get("stream"):
            raise invalid("all answers are whole before the best is known: leave out stream")
        return best_of

    @field_validator("echo")
    @classmethod
    def _echo_alone(cls, echo: bool | None, info: ValidationInfo) -> bool | None:
        if not echo and info.data.get("max_tokens") == 0:
            raise invalid("must be true when max_tokens is 0, else there is nothing to answer")
        return echo

    @property
    def details(self) -> Details | None:
        """What the response says of each token."""
        ranked = (self.best_of or 1) > (self.n or 1)
        if self.logprobs is None and not ranked and not self.wants_provenance:
            return None
        prompt = bool(self.echo) and self.logprobs is not None
        return Details(top=self.logprobs or 0, prompt=prompt)


class TextPart(Strict):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """One turn. `developer` is the newer name of `system`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: Annotated[list[CallBody] | None, Field(max_length=MAX_TOOLS), OfAnAssistant] = None
    tool_call_id: Str | None = None
    content: Annotated[
        Annotated[Str, BeforeValidator(text_of_parts, json_schema_input_type=str | list[TextPart])]
        | None,
        Field(validate_default=True),
    ] = None
    name: str | None = None
    refusal: Annotated[Any, neutral()] = None
    audio: Annotated[Any, neutral()] = None
    annotations: Annotated[Any, neutral([])] = None
    function_call: Annotated[Any, neutral()] = None

    @field_validator("tool_call_id")
    @classmethod
    def _of_a_tool(cls, call: str | None, info: ValidationInfo) -> str | None:
        if call is not None and info.data.get("role") != "tool":
            raise invalid("only a tool answers a call")
        return call

    @field_validator("content")
    @classmethod
    def _said(cls, content: str | None, info: ValidationInfo) -> str | None:
        if content is None and not info.data.get("tool_calls"):
            raise invalid("Input should be a valid string")
        return content


class ChatBody(GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_TURNS)]
    max_completion_tokens: Limit | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None

    audio: Annotated[Any, neutral()] = None
    function_call: Annotated[Any, neutral("none")] = None
    functions: Annotated[Any, neutral([])] = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None
    modalities: Annotated[Any, neutral(["text"])] = None
    moderation: Annotated[Any, neutral()] = None
    parallel_tool_calls: bool | None = None
    prediction: Annotated[Any, neutral()] = None
    reasoning_effort: Annotated[Any, neutral("none")] = None
    service_tier: Annotated[Any, neutral("auto", "default")] = None
    store: Annotated[Any, neutral(False)] = None
    tools: Tools = Field(default_factory=list)
    tool_choice: ToolChoice | None = None
    verbosity: Annotated[Any, neutral("medium")] = None
    web_search_options: Annotated[Any, neutral()] = None

    @field_validator("top_logprobs")
    @classmethod
    def _only_with_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and not info.data.get("logprobs"):
            raise invalid("only allowed when logprobs is true")
        return top

    @property
    def details(self) -> Details | None:
        """What the response says of each token."""
        if not (self.logprobs or self.wants_provenance):
            return None
        return Details(top=self.top_logprobs or 0)

    @field_validator("max_completion_tokens")
    @classmethod
    def _one_limit(cls, limit: int | None, info: ValidationInfo) -> int | None:
        if limit is not None and info.data.get("max_tokens") not in (None, limit):
            raise invalid("contradicts max_tokens; send one of them")
        return limit


class EmbeddingBody(Strict):
    """`POST /v1/embeddings`."""

    model: Str
    input: Annotated[list[str] | list[list[int]], Field(max_length=MAX_INPUTS), PROMPT]
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None

    dimensions: Annotated[int, Field(ge=1)] | None = None


class TokenizeBody(Strict):
    """`POST /tokenize`: either a prompt or the messages of a chat; `model` may be the embedder's.

    `add_special_tokens` is for prompts; a chat has those of its template.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}]}
    )

    model: Str | None = None
    prompt: Annotated[Str, Field(max_length=MAX_TEXT)] | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_TURNS)] | None = None
    add_special_tokens: bool | None = None

    add_generation_prompt: Annotated[Any, neutral(True)] = None
    continue_final_message: Annotated[Any, neutral(False)] = None
    return_token_strs: Annotated[Any, neutral(False)] = None


class DetokenizeBody(Strict):
    """`POST /detokenize`."""

    model: Str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_TEXT)]


def as_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """The turns as the tokenizer takes them."""
    return [
        Message(
            "system" if each.role == "developer" else each.role,
            each.content or "",
            tuple(call.call() for call in each.tool_calls or ()),
            each.tool_call_id or "",
        )
        for each in messages
    ]
