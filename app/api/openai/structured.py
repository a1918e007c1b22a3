"""What an answer is held to: `response_format`, and grammars and expressions of `dragon`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from app.api.openai.field_types import JsonObject, Strict, invalid
from app.container import AppState
from dragon.errors import InvalidRequestError
from dragon.inference import grammar

_OBJECT = {"type": "object"}


class JsonSchema(Strict):
    """A JSON schema. Every reply keeps to it, whether or not it is `strict`."""

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: Annotated[JsonObject | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Strict):
    """Text, any JSON object, or what a schema describes."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Annotated[JsonSchema | None, Field(validate_default=True)] = None

    @field_validator("json_schema")
    @classmethod
    def _goes_with_its_type(
        cls, schema: JsonSchema | None, info: ValidationInfo
    ) -> JsonSchema | None:
        if (info.data.get("type") == "json_schema") != (schema is not None):
            raise invalid("goes with the type json_schema, and with no other")
        return schema

    def grammar(self) -> str:
        """The grammar of a reply, empty for text."""
        if self.type == "text":
            return ""
        schema = _OBJECT if self.json_schema is None else self.json_schema.schema_
        return grammar.of_schema(True if schema is None else schema)


def held_to(
    name: str, form: ResponseFormat | None, notation: str | None, regex: str | None
) -> tuple[str, str]:
    """The grammar of an answer, empty if it is held to none, and which parameter says so.

    `name` is what the parameter of the form is called. Raises `InvalidRequestError` where two do,
    and for a notation that is not known.
    """
    found = {
        name: "" if form is None else form.grammar(),
        "dragon.grammar": "" if notation is None else _read(notation),
        "dragon.regex": "" if regex is None else grammar.of_regex(regex),
    }
    given = [(text, param) for param, text in found.items() if text]
    if len(given) > 1:
        param = given[1][1]
        raise InvalidRequestError(f"{param}: contradicts {name}", param=param)
    return given[0] if given else ("", name)


def _read(notation: str) -> str:
    try:
        return grammar.of_text(notation)
    except InvalidRequestError as error:
        param = "dragon.grammar"
        raise InvalidRequestError(f"{param}: {error.message}", param=param) from error


async def checked(asked: Callable[[], tuple[str, str]], state: AppState, *, raw: bool) -> str:
    """The grammar that is asked for, compiled for the model.

    Raises `InvalidRequestError` for what is none, and for a chat with a model that quotes.
    """
    # The first one, and one that is large, take a while.
    async with state.beside.one():
        text, param = await asyncio.to_thread(asked)
    if not text:
        return text
    if state.generation.quotes and not raw:
        raise InvalidRequestError(
            f"{param}: this model answers with sentences of your documents, word for word, and "
            "cannot keep to a format; use a model that writes, or leave it out",
            param=param,
        )
    try:
        async with state.beside.one():
            await asyncio.to_thread(state.generation.tokenizer.mask, text)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{param}: {error.message}", param=param) from error
    return text
