"""The one rule for parameters, and the one table of their spellings; docs/api.md explains it.

A supported parameter that changes the text is applied, under any name that a common server has for
it. One without effect is accepted. An unknown one is accepted and reported, in the header
`X-Dragon-Ignored` and in `dragon.ignored`; with `DRAGON_STRICT` it is refused. One that would
change the meaning and is not supported is always refused, by the fields of the bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from pydantic import ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from app.api.openai.field_types import Strict, wrong

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
