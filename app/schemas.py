"""Requests and responses in OpenAI's shapes, checked strictly: what is not honoured is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from dragon.sampling import MAX_TEMPERATURE, SEED_BITS, Mode
from dragon.scheduling import Schedule
from dragon.tokenizer import Message

MAX_CHOICES = 32


def _wrong(message: str, code: str = "invalid_value") -> PydanticCustomError:
    # The message goes in as a value: pydantic would read braces in it as a template.
    return PydanticCustomError(code, "{message}", {"message": message})


def _neutral(*values: Any) -> AfterValidator:
    """Marks a parameter that is known but not supported: null and these values pass."""

    def check(value: Any) -> Any:
        for passes in (None, *values):
            if value == passes and isinstance(value, bool) == isinstance(passes, bool):
                return value
        raise _wrong("not supported by this server; leave it out", "unsupported_parameter")

    return AfterValidator(check)


def _unicode(text: str) -> str:
    """JSON can spell half a surrogate pair, which is no text and which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _wrong("holds half a surrogate pair, which is not text") from None
    return text


Str = Annotated[str, AfterValidator(_unicode)]


def _text_of_parts(content: Any) -> Any:
    """OpenAI's list of content parts as one text."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise _wrong("a content part is an object with a type")
        if part["type"] != "text":
            raise _wrong("only text parts are supported", "unsupported_parameter")
        if not isinstance(part.get("text"), str) or part.keys() - {"type", "text"}:
            raise _wrong("a text part has a type and a text")
        texts.append(part["text"])
    return "".join(texts)


def _listed_stop(stop: Any) -> Any:
    return [] if stop is None else [stop] if isinstance(stop, str) else stop


def _listed_prompt(prompt: Any) -> Any:
    """Any of the four shapes of a prompt, as a list of texts or of token lists."""
    if isinstance(prompt, str) or _are_tokens(prompt):
        prompt = [prompt]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(p, str) for p in prompt):
            return [_unicode(p) for p in prompt]
        if all(map(_are_tokens, prompt)):
            return prompt
    raise _wrong(
        "must be a string, a list of strings, a list of token ids or a list of lists of token ids"
    )


def _are_tokens(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value)
    )


Stop = Annotated[
    list[Annotated[Str, StringConstraints(min_length=1, max_length=500)]],
    Field(max_length=4),
    BeforeValidator(_listed_stop),
]


Temperature = Annotated[float, Field(ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(1 << (SEED_BITS - 1)), lt=1 << SEED_BITS)]
Limit = Annotated[int, Field(ge=1, lt=1 << 31)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Names = Annotated[tuple[Str, ...], Field(max_length=1000, strict=False)]


class DragonOptions(_Strict):
    """Our own parameters. Sending the object, even empty, asks for `dragon` in the response.

    `catch_up` false keeps each side from running the other's drafts: for comparisons. `documents`
    (ids) and `collections` (names) limit which of the person's documents may be used.
    """

    aggregation: Annotated[Mode | None, Field(strict=False)] = None
    schedule: Annotated[Schedule, Field(strict=False)] = Schedule.GREEDY
    catch_up: bool = True
    top_k: Annotated[int, Field(ge=0, le=32)] | None = None
    private: bool = False
    documents: Names | None = None
    collections: Names | None = None
    provenance: Annotated[Any, _neutral(False)] = None


class StreamOptions(_Strict):
    """What a stream carries beside the text."""

    include_usage: bool = False
    # Padding against traffic analysis: OpenAI's clients may send either value.
    include_obfuscation: bool | None = None


class GenerationBody(_Strict):
    """What completions and chat completions share."""

    model: Str
    temperature: Temperature | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    seed: Seed | None = None
    max_tokens: Limit | None = None
    stop: Stop = []
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    dragon: DragonOptions | None = None
    # Names of the caller's own; they change nothing.
    user: str | None = None

    presence_penalty: Annotated[Any, _neutral(0)] = None
    frequency_penalty: Annotated[Any, _neutral(0)] = None
    logit_bias: Annotated[Any, _neutral({})] = None

    @field_validator("stream_options")
    @classmethod
    def _only_in_streams(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise _wrong("only allowed when stream is true")
        return options

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(GenerationBody):
    """`POST /v1/completions`. The model is told `prompt` as it stands, without a template."""

    prompt: Annotated[
        list[str] | list[list[int]],
        Field(max_length=MAX_CHOICES),
        BeforeValidator(_listed_prompt),
    ]

    best_of: Annotated[Any, _neutral(1)] = None
    echo: Annotated[Any, _neutral(False)] = None
    logprobs: Annotated[Any, _neutral()] = None
    suffix: Annotated[Any, _neutral("")] = None


class ChatMessage(_Strict):
    """One turn. `developer` is the newer name of `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[Str, BeforeValidator(_text_of_parts)]
    name: str | None = None
    refusal: Annotated[Any, _neutral()] = None
    audio: Annotated[Any, _neutral()] = None
    annotations: Annotated[Any, _neutral([])] = None
    tool_calls: Annotated[Any, _neutral([])] = None
    function_call: Annotated[Any, _neutral()] = None


class ChatBody(GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)]
    max_completion_tokens: Limit | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    audio: Annotated[Any, _neutral()] = None
    function_call: Annotated[Any, _neutral("none")] = None
    functions: Annotated[Any, _neutral([])] = None
    logprobs: Annotated[Any, _neutral(False)] = None
    top_logprobs: Annotated[Any, _neutral(0)] = None
    modalities: Annotated[Any, _neutral(["text"])] = None
    parallel_tool_calls: Annotated[Any, _neutral(True, False)] = None
    prediction: Annotated[Any, _neutral()] = None
    reasoning_effort: Annotated[Any, _neutral("none")] = None
    response_format: Annotated[Any, _neutral({"type": "text"})] = None
    service_tier: Annotated[Any, _neutral("auto", "default")] = None
    store: Annotated[Any, _neutral(False)] = None
    tool_choice: Annotated[Any, _neutral("none", "auto")] = None
    tools: Annotated[Any, _neutral([])] = None
    verbosity: Annotated[Any, _neutral("medium")] = None
    web_search_options: Annotated[Any, _neutral()] = None

    @field_validator("max_completion_tokens")
    @classmethod
    def _one_limit(cls, limit: int | None, info: ValidationInfo) -> int | None:
        if limit is not None and info.data.get("max_tokens") not in (None, limit):
            raise _wrong("contradicts max_tokens; send one of them")
        return limit


def as_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """The turns as the tokenizer takes them."""
    return [Message("system" if m.role == "developer" else m.role, m.content) for m in messages]
