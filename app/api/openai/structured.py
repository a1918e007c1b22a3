"""Structured output: `response_format`, schemas, grammars and regular expressions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from app.api.openai.field_types import JsonObject, Lenient, invalid, wrong
from app.container import AppState
from dragon.errors import InvalidRequestError
from dragon.inference import grammar

_OBJECT = {"type": "object"}


class JsonSchema(Lenient):
    """A JSON schema. Every reply satisfies it, whether or not it is `strict`."""

    AT: ClassVar = "response_format."

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")] | None = None
    description: str | None = None
    schema_: Annotated[JsonObject | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Lenient):
    """Text, any JSON object, or one described by a schema, where llama.cpp's clients send it."""

    AT: ClassVar = "response_format."

    type: Literal["text", "json_object", "json_schema"]
    schema_: Annotated[JsonObject | bool | None, Field(alias="schema")] = None
    json_schema: Annotated[JsonSchema | None, Field(validate_default=True)] = None

    @field_validator("json_schema")
    @classmethod
    def _goes_with_its_type(
        cls, schema: JsonSchema | None, info: ValidationInfo
    ) -> JsonSchema | None:
        described = schema is not None or info.data.get("schema_") is not None
        if not described if info.data.get("type") == "json_schema" else schema is not None:
            raise invalid("is required with the type json_schema, and only allowed with it")
        return schema

    def grammar(self) -> str:
        """The grammar of a reply, empty for text."""
        if self.type == "text":
            return ""
        within = None if self.json_schema is None else self.json_schema.schema_
        schema = self.schema_ if within is None else within
        if schema is None and self.json_schema is None:
            schema = _OBJECT
        return grammar.of_schema(True if schema is None else schema)


def held_to(asked: Mapping[str, tuple[Callable[[Any], str], Any]]) -> tuple[str, str]:
    """The grammar of an answer, empty if there is none, and the parameter that sets it.

    `asked` maps the parameters that may set it to a function that makes the grammar, and the value;
    the first is named if none does. Raises `InvalidRequestError` if two set one, and for an invalid
    notation.
    """
    given = []
    for param, (grammar_of, value) in asked.items():
        try:
            text = "" if value is None else grammar_of(value)
        except InvalidRequestError as error:
            raise wrong(param, error.message) from error
        if text:
            given.append((text, param))
    if len(given) > 1:
        (_, one), (_, other) = given[:2]
        raise wrong(other, f"contradicts {one}")
    return given[0] if given else ("", next(iter(asked)))


def schema_of(given: Any) -> str:
    """The grammar of a JSON schema, which may be given as text."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(f"this is no JSON: {error}") from error
    if not isinstance(given, dict | bool):
        raise InvalidRequestError("a JSON schema is an object")
    return grammar.of_schema(given)


def choice_of(texts: Sequence[str]) -> str:
    """The grammar of exactly one of these texts."""
    return grammar.of_text("start: " + " | ".join(map(json.dumps, texts)))


def allowed_of(tokens: Sequence[int]) -> str:
    """The grammar of texts made of these tokens only."""
    return grammar.of_text(f"start: <[{','.join(map(str, tokens))}]>*")


async def checked(asked: Callable[[], tuple[str, str]], state: AppState, *, raw: bool) -> str:
    """The requested grammar, compiled for the model.

    Raises `InvalidRequestError` for an invalid one, and for a chat with a quoting model.
    """
    tokenizer, quotes = state.generation.tokenizer, state.generation.quotes_alone and not raw

    def compiled() -> str:
        text, param = asked()
        if text and quotes:
            raise wrong(
                param,
                "this model answers with sentences of your documents, word for word, and cannot "
                "keep to a format; use a model that writes, or leave it out",
            )
        try:
            if text:
                tokenizer.mask(text)
        except InvalidRequestError as error:
            raise wrong(param, error.message) from error
        return text

    # Compiling the first one, or a large one, takes a while.
    return await state.threads.run(compiled)
