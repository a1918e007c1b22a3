"""Requests and responses in OpenAI's shapes, checked strictly: what is not honoured is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dragon.sampling import MAX_TEMPERATURE, SEED_BITS

MAX_CHOICES = 32


def _unsupported(message: str = "not supported by this server; leave it out") -> Exception:
    # A message without braces: pydantic would read them as a template.
    return PydanticCustomError("unsupported_parameter", "{message}", {"message": message})


def _only(*neutral: Any) -> Any:
    """The type of a parameter that is known but not supported: its default values pass."""

    def check(value: Any) -> Any:
        if not any(value == n and isinstance(value, bool) == isinstance(n, bool) for n in neutral):
            raise _unsupported()
        return value

    return Annotated[Any, AfterValidator(check)]


def _text_of_parts(content: Any) -> Any:
    """OpenAI's list of content parts as one text."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise PydanticCustomError("invalid_part", "a content part is an object with a type")
        if part["type"] != "text":
            raise _unsupported("only text parts are supported")
        if not isinstance(part.get("text"), str) or part.keys() - {"type", "text"}:
            raise PydanticCustomError("invalid_part", "a text part has a type and a text")
        texts.append(part["text"])
    return "".join(texts)


def _listed_stop(stop: Any) -> Any:
    return [] if stop is None else [stop] if isinstance(stop, str) else stop


def _supported_prompt(prompt: Any) -> Any:
    """Any of the four shapes of a prompt, as a list of texts or of token lists."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if all(map(_is_token, prompt)):
            return [prompt]
        if all(isinstance(p, str) for p in prompt):
            return prompt
        if all(isinstance(p, list) and p and all(map(_is_token, p)) for p in prompt):
            return prompt
    raise PydanticCustomError(
        "invalid_prompt",
        "must be a string, a list of strings, a list of token ids or a list of lists of token ids",
    )


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


Stop = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=500)]],
    Field(max_length=4),
    BeforeValidator(_listed_stop),
]
Absent = _only(None)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class DragonOptions(_Strict):
    """Our own parameters. Sending the object, even empty, asks for `dragon` in the response."""

    aggregation: Literal["coupled", "tokenwise", "local", "context"] | None = None
    top_k: Annotated[int, Field(ge=1, le=32)] | None = None
    private: bool = False
    provenance: _only(None, False) = None  # type: ignore[valid-type]


class StreamOptions(_Strict):
    """What a stream carries beside the text."""

    include_usage: bool = False
    # Padding against traffic analysis: OpenAI's clients may send either value.
    include_obfuscation: bool | None = None


class _GenerationBody(_Strict):
    """What completions and chat completions share."""

    model: str
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=-(1 << (SEED_BITS - 1)), lt=1 << SEED_BITS)] | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None
    stop: Stop = []
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    dragon: DragonOptions | None = None
    # Names of the caller's own; they change nothing.
    user: str | None = None

    presence_penalty: _only(None, 0) = None  # type: ignore[valid-type]
    frequency_penalty: _only(None, 0) = None  # type: ignore[valid-type]
    logit_bias: _only(None, {}) = None  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _usage_only_in_streams(self) -> _GenerationBody:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is only allowed when stream is true")
        return self

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(_GenerationBody):
    """`POST /v1/completions`. The model is told `prompt` as it stands, without a template."""

    prompt: Annotated[
        list[str] | list[list[int]], Field(max_length=MAX_CHOICES), BeforeValidator(_supported_prompt)
    ]

    best_of: _only(None, 1) = None  # type: ignore[valid-type]
    echo: _only(None, False) = None  # type: ignore[valid-type]
    logprobs: Absent = None  # type: ignore[valid-type]
    suffix: _only(None, "") = None  # type: ignore[valid-type]


class ChatMessage(_Strict):
    """One turn. `developer` is the newer name of `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text_of_parts)]
    name: str | None = None
    refusal: Absent = None  # type: ignore[valid-type]
    audio: Absent = None  # type: ignore[valid-type]
    annotations: _only(None, []) = None  # type: ignore[valid-type]
    tool_calls: _only(None, []) = None  # type: ignore[valid-type]
    function_call: Absent = None  # type: ignore[valid-type]


class ChatBody(_GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)]
    max_completion_tokens: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    audio: Absent = None  # type: ignore[valid-type]
    function_call: _only(None, "none") = None  # type: ignore[valid-type]
    functions: _only(None, []) = None  # type: ignore[valid-type]
    logprobs: _only(None, False) = None  # type: ignore[valid-type]
    top_logprobs: _only(None, 0) = None  # type: ignore[valid-type]
    modalities: _only(None, ["text"]) = None  # type: ignore[valid-type]
    parallel_tool_calls: _only(None, True, False) = None  # type: ignore[valid-type]
    prediction: Absent = None  # type: ignore[valid-type]
    reasoning_effort: _only(None, "none") = None  # type: ignore[valid-type]
    response_format: _only(None, {"type": "text"}) = None  # type: ignore[valid-type]
    service_tier: _only(None, "auto", "default") = None  # type: ignore[valid-type]
    store: _only(None, False) = None  # type: ignore[valid-type]
    tool_choice: _only(None, "none", "auto") = None  # type: ignore[valid-type]
    tools: _only(None, []) = None  # type: ignore[valid-type]
    verbosity: _only(None, "medium") = None  # type: ignore[valid-type]
    web_search_options: Absent = None  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _one_limit(self) -> ChatBody:
        both = (self.max_tokens, self.max_completion_tokens)
        if None not in both and both[0] != both[1]:
            raise ValueError("max_tokens and max_completion_tokens contradict each other")
        return self
