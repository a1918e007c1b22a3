"""Types of request fields, checked strictly, and the one rule for parameters.

The rule, which docs/api.md explains: a supported parameter that changes the text is applied, under
any name that a common server has for it. One without effect is accepted. An unknown one is accepted
and reported, in the header `X-Dragon-Ignored` and in `dragon.ignored`; with `DRAGON_STRICT` it is
refused. One that would change the meaning and is not supported is always refused, by the fields of
the bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dragon.errors import InvalidRequestError
from dragon.inference.distribution import MAX_TOP
from dragon.sampling.params import (
    MAX_BIAS,
    MAX_COUNT,
    MAX_PENALTY,
    MAX_REPETITION,
    MAX_TEMPERATURE,
    MIN_REPETITION,
    SEED_BITS,
)


def invalid(message: str, code: str = "invalid_value") -> PydanticCustomError:
    """The error for an invalid field value."""
    # Passed as a value: pydantic would read braces in the message as a template.
    return PydanticCustomError(code, "{message}", {"message": message})


def wrong(param: str, message: str, code: str | None = None) -> InvalidRequestError:
    """The error for a wrong parameter, with its name before the message."""
    return InvalidRequestError(f"{param}: {message}", param=param, code=code)


def conflict(param: str, message: str) -> InvalidRequestError:
    """The error for a parameter whose value does not go with the others."""
    return wrong(param, message, "invalid_value")


class Neutral:
    """Marks a known but unsupported parameter: null and these values are accepted."""

    def __init__(self, *values: Any) -> None:
        self._values = (None, *values)

    def _check(self, value: Any) -> Any:
        for passes in self._values:
            if value == passes and isinstance(value, bool) == isinstance(passes, bool):
                return value
        raise invalid("not supported by this server; leave it out", "unsupported_parameter")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": list(self._values), "description": "Not supported: leave it out."}


UNSENT = Field(exclude_if=lambda value: value is None)
"""Marks a field of a reply that is left out where it is None."""


def _unicode(text: str) -> str:
    """Reject lone surrogates, which JSON can spell but which are not text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid("contains half a surrogate pair, which is not text") from None
    return text


Str = Annotated[str, AfterValidator(_unicode)]


def unicode_within(value: Any) -> Any:
    """A JSON value; lone surrogates in its strings are rejected."""
    try:
        _unicode(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise invalid("is nested too deeply") from None
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(unicode_within)]
LISTED = BeforeValidator(
    lambda given: [given] if isinstance(given, str) else given,
    json_schema_input_type=str | list[str],
)
"""Takes one text as a list of it."""

TEXTS = ("text", "input_text", "output_text")
"""Types of text parts."""


def text_of_parts(content: Any) -> Any:
    """OpenAI's list of content parts as one text, joined by line breaks."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise invalid("a content part is an object with a type")
        if part["type"] not in TEXTS:
            raise invalid(
                f"{part['type']} is not supported by this server; send text parts only",
                "unsupported_parameter",
            )
        if not isinstance(part.get("text"), str):
            raise invalid("a text part has a type and a text")
        texts.append(part["text"])
    return "\n".join(texts)


def _listed_stop(stop: Any) -> Any:
    """A list of stop strings; an empty text asks for none."""
    return [] if stop in (None, "") else [stop] if isinstance(stop, str) else stop


def _listed_prompt(prompt: Any) -> Any:
    """Any of the four shapes of a prompt, as a list of texts or of token lists."""
    if isinstance(prompt, str) or _are_tokens(prompt):
        prompt = [prompt]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(p, str) for p in prompt):
            return [_unicode(p) for p in prompt]
        if all(map(_are_tokens, prompt)):
            return prompt
    raise invalid(
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
    BeforeValidator(
        _listed_stop,
        json_schema_input_type=Annotated[str, Field(max_length=500)] | _StopStrings | None,
    ),
]
_Tokens = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
_Text = Annotated[str, Field(min_length=1)]
PROMPT = BeforeValidator(
    _listed_prompt,
    json_schema_input_type=_Text
    | Annotated[list[_Text], Field(min_length=1)]
    | _Tokens
    | Annotated[list[_Tokens], Field(min_length=1)],
)
Temperature = Annotated[float, Field(ge=0, le=MAX_TEMPERATURE, allow_inf_nan=False)]
TopP = Annotated[
    float, Field(ge=0, le=1, allow_inf_nan=False), AfterValidator(lambda share: share or 1e-6)
]
"""0 keeps only the likeliest token, as in OpenAI's API."""
MinP = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
TopK = Annotated[int, Field(ge=-1, lt=MAX_COUNT), AfterValidator(lambda count: max(0, count))]
"""A number of tokens; 0 and -1 mean all of them."""
Repetition = Annotated[float, Field(ge=MIN_REPETITION, le=MAX_REPETITION, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(1 << (SEED_BITS - 1)), lt=1 << SEED_BITS)]
Penalty = Annotated[float, Field(ge=-MAX_PENALTY, le=MAX_PENALTY, allow_inf_nan=False)]
TokenId = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]
LogitBias = dict[TokenId, Bias]
Top = Annotated[int, Field(ge=0, le=MAX_TOP)]
Limit = Annotated[int, Field(ge=1, lt=1 << 31)]
Names = Annotated[tuple[Str, ...], Field(max_length=1000, strict=False)]

HEADER = "X-Dragon-Ignored"
_LONGEST = 1000  # the most characters of the header

IGNORED: ContextVar[list[str] | None] = ContextVar("ignored", default=None)
"""The names of a request's unknown parameters; None if those are refused."""

SPELLINGS: Mapping[str, str] = {
    # llama.cpp, Ollama, Text Generation Inference
    "repeat_penalty": "repetition_penalty",
    "n_predict": "max_tokens",
    "num_predict": "max_tokens",
    "max_new_tokens": "max_tokens",
    "grammar": "guided_grammar",
    "json_schema": "guided_json",
    "n_probs": "logprobs",
    "return_tokens": "return_token_ids",
    "include_stop": "include_stop_str_in_output",
    # vLLM and SGLang
    "regex": "guided_regex",
    "ebnf": "guided_grammar",
    "min_new_tokens": "min_tokens",
    "typical": "typical_p",
    "tfs": "tfs_z",
}
"""Other servers' names of supported parameters."""

STRUCTURED: Mapping[str, str] = {
    "json": "guided_json",
    "regex": "guided_regex",
    "choice": "guided_choice",
    "grammar": "guided_grammar",
}
"""The members of vLLM's `structured_outputs`."""

NOTHING = frozenset(
    {
        # Caching, loading, scheduling, storing.
        "cache_prompt", "cache_salt", "id_slot", "keep_alive", "n_keep", "n_discard", "num_ctx",
        "num_keep", "priority", "prompt_cache_key", "prompt_cache_options",
        "prompt_cache_retention", "service_tier", "store", "ttl", "draft_model", "speculative",
        # Names of the caller's own.
        "metadata", "request_id", "rid", "safety_identifier", "session_id",
        # Not about the text.
        "logprob_start_len", "response_fields", "return_progress", "separate_reasoning",
        "spaces_between_special_tokens", "stream_reasoning", "timings_per_token",
        "t_max_predict_ms", "guided_decoding_backend", "guided_whitespace_pattern",
        "repeat_last_n", "min_keep", "prediction", "mirostat_tau", "mirostat_eta",
        "penalize_nl", "penalize_newline", "xtc_threshold", "dry_base", "dry_allowed_length",
        "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent",
    }
)  # fmt: skip
"""Parameters without effect: they change no text, or tune something that is off."""


class Strict(BaseModel):
    """No unknown fields, no coercion, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Lenient(Strict):
    """A body, or a part of one, read by the rule; `AT` is the part's place in the body."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    AT: ClassVar[str] = ""
    SPELLINGS: ClassVar[Mapping[str, str]] = {}
    NOTHING: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Let every optional field be null."""
        schema = handler(core)
        body = handler.resolve_ref_schema(schema)
        for name, field in body["properties"].items():
            null = {"type": "null"} in field.get("anyOf", ()) or None in field.get("enum", ())
            if name not in body.get("required", ()) and not null:
                body["properties"][name] = {"anyOf": [field, {"type": "null"}]}
        return schema

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        own = {field.alias or name: field for name, field in cls.model_fields.items()}
        read: dict[str, Any] = {}
        for name, value in given.items():
            known = name if name in own else cls.SPELLINGS.get(name, name)
            if value is None and not (known in own and own[known].is_required()):
                continue
            if name not in own and name in cls.NOTHING:
                continue
            if known not in own and (ignored := IGNORED.get()) is not None:
                ignored.append(f"{cls.AT}{name}")
                continue
            if known in read and read[known] != value:
                raise wrong(f"{cls.AT}{name}", f"contradicts {known}; send one of them")
            read[known] = value
        return read


def header(ignored: Iterable[str]) -> str:
    """The names for the header: ASCII, each once, without those that do not fit."""
    names = dict.fromkeys(json.dumps(name)[1:-1] for name in ignored)
    text = ", ".join(names)
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(", ")[0]
