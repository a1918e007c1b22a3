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
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from app.events import Details
from dragon.details import MAX_TOP
from dragon.sampling import MAX_BIAS, MAX_PENALTY, MAX_TEMPERATURE, SEED_BITS, Mode
from dragon.scheduling import Schedule
from dragon.tokenizer import Message

MAX_CHOICES = 32
MAX_INPUTS = 2048
MAX_HOPS = 1


def _wrong(message: str, code: str = "invalid_value") -> PydanticCustomError:
    # The message goes in as a value: pydantic would read braces in it as a template.
    return PydanticCustomError(code, "{message}", {"message": message})


class _Neutral:
    """Passes null and these values."""

    def __init__(self, *values: Any) -> None:
        self._values = (None, *values)

    def _check(self, value: Any) -> Any:
        for passes in self._values:
            if value == passes and isinstance(value, bool) == isinstance(passes, bool):
                return value
        raise _wrong("not supported by this server; leave it out", "unsupported_parameter")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": list(self._values), "description": "Not supported: leave it out."}


def _neutral(*values: Any) -> _Neutral:
    """Marks a parameter that is known but not supported: null and these values pass."""
    return _Neutral(*values)


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


_StopString = Annotated[Str, StringConstraints(min_length=1, max_length=500)]
_StopStrings = Annotated[list[_StopString], Field(max_length=4)]
Stop = Annotated[
    _StopStrings,
    BeforeValidator(_listed_stop, json_schema_input_type=_StopString | _StopStrings | None),
]
_Tokens = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
_Text = Annotated[str, Field(min_length=1)]
_PROMPT = BeforeValidator(
    _listed_prompt,
    json_schema_input_type=_Text
    | Annotated[list[_Text], Field(min_length=1)]
    | _Tokens
    | Annotated[list[_Tokens], Field(min_length=1)],
)
Temperature = Annotated[float, Field(ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(1 << (SEED_BITS - 1)), lt=1 << SEED_BITS)]
Penalty = Annotated[float, Field(ge=-MAX_PENALTY, le=MAX_PENALTY, allow_inf_nan=False)]
TokenId = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]
LogitBias = dict[TokenId, Bias]
Top = Annotated[int, Field(ge=0, le=MAX_TOP)]
Limit = Annotated[int, Field(ge=1, lt=1 << 31)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Names = Annotated[tuple[Str, ...], Field(max_length=1000, strict=False)]


class DragonOptions(_Strict):
    """Our own parameters. Sending the object, even empty, asks for `dragon` in the response.

    `catch_up` false keeps each side from running the other's drafts: for comparisons. `documents`
    (ids) and `collections` (names) limit which of the person's documents may be used. `hops` is for
    chats: where a sentence leaves words of the question open and names what the other side knows
    more about, the answer goes on with that, so often at most; 0 ends it there.
    """

    aggregation: Annotated[Mode | None, Field(strict=False)] = None
    schedule: Annotated[Schedule, Field(strict=False)] = Schedule.GREEDY
    catch_up: bool = True
    top_k: Annotated[int, Field(ge=0, le=32)] | None = None
    private: bool = False
    documents: Names | None = None
    collections: Names | None = None
    provenance: bool = False
    hops: Annotated[int, Field(ge=0, le=MAX_HOPS)] | None = None


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

    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None

    @field_validator("stream_options")
    @classmethod
    def _only_in_streams(
        cls, options: StreamOptions | None, info: ValidationInfo
    ) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise _wrong("only allowed when stream is true")
        return options

    @property
    def wants_provenance(self) -> bool:
        """Whether the response says where each token comes from."""
        return self.dragon is not None and self.dragon.provenance

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(GenerationBody):
    """`POST /v1/completions`. The model is told `prompt` as it stands, without a template."""

    prompt: Annotated[
        list[str] | list[list[int]],
        Field(max_length=MAX_CHOICES),
        _PROMPT,
    ]

    max_tokens: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    echo: Annotated[bool | None, Field(validate_default=True)] = None
    logprobs: Top | None = None
    suffix: Annotated[Any, _neutral("")] = None

    @field_validator("best_of")
    @classmethod
    def _enough_of_them(cls, best_of: int | None, info: ValidationInfo) -> int | None:
        if best_of is not None and best_of < (info.data.get("n") or 1):
            raise _wrong("must be at least n")
        if best_of is not None and best_of > (info.data.get("n") or 1) and info.data.get("stream"):
            raise _wrong("all answers are whole before the best is known: leave out stream")
        return best_of

    @field_validator("echo")
    @classmethod
    def _echo_alone(cls, echo: bool | None, info: ValidationInfo) -> bool | None:
        if not echo and info.data.get("max_tokens") == 0:
            raise _wrong("must be true when max_tokens is 0, else there is nothing to answer")
        return echo

    @property
    def details(self) -> Details | None:
        """What is to be told of each token."""
        ranked = (self.best_of or 1) > (self.n or 1)
        if self.logprobs is None and not ranked and not self.wants_provenance:
            return None
        prompt = bool(self.echo) and self.logprobs is not None
        return Details(top=self.logprobs or 0, prompt=prompt)


class TextPart(_Strict):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(_Strict):
    """One turn. `developer` is the newer name of `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        Str, BeforeValidator(_text_of_parts, json_schema_input_type=str | list[TextPart])
    ]
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
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None

    audio: Annotated[Any, _neutral()] = None
    function_call: Annotated[Any, _neutral("none")] = None
    functions: Annotated[Any, _neutral([])] = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None
    modalities: Annotated[Any, _neutral(["text"])] = None
    moderation: Annotated[Any, _neutral()] = None
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

    @field_validator("top_logprobs")
    @classmethod
    def _only_with_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and not info.data.get("logprobs"):
            raise _wrong("only allowed when logprobs is true")
        return top

    @property
    def details(self) -> Details | None:
        """What is to be told of each token."""
        if not (self.logprobs or self.wants_provenance):
            return None
        return Details(top=self.top_logprobs or 0)

    @field_validator("max_completion_tokens")
    @classmethod
    def _one_limit(cls, limit: int | None, info: ValidationInfo) -> int | None:
        if limit is not None and info.data.get("max_tokens") not in (None, limit):
            raise _wrong("contradicts max_tokens; send one of them")
        return limit


class EmbeddingBody(_Strict):
    """`POST /v1/embeddings`."""

    model: Str
    input: Annotated[list[str] | list[list[int]], Field(max_length=MAX_INPUTS), _PROMPT]
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None

    dimensions: Annotated[Any, _neutral()] = None


class TokenizeBody(_Strict):
    """`POST /tokenize`: either a prompt or the messages of a chat; `model` may be the embedder's.

    `add_special_tokens` is for prompts; a chat has those of its template.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}]}
    )

    model: Str | None = None
    prompt: Str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)] | None = None
    add_special_tokens: bool | None = None

    add_generation_prompt: Annotated[Any, _neutral(True)] = None
    continue_final_message: Annotated[Any, _neutral(False)] = None
    return_token_strs: Annotated[Any, _neutral(False)] = None


class DetokenizeBody(_Strict):
    """`POST /detokenize`."""

    model: Str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


def as_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """The turns as the tokenizer takes them."""
    return [Message("system" if m.role == "developer" else m.role, m.content) for m in messages]
