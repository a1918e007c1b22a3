"""Requests that try what there is with the ids of another: made of descriptions of what is taken.

A field that has to be of some sense has it by its name; any other string is one of the ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

QUESTION = "What is the code of the safe?"
_MODEL, _EMBEDDER, _RERANKER = "dragon-7m", "all-MiniLM-L6-v2", "reranker"
_MODELS = {"embed": _EMBEDDER, "embeddings": _EMBEDDER, "rerank": _RERANKER}
_ROLES = {"role": "user", "content": QUESTION}
_SENSE: dict[str, Any] = {
    "messages": [_ROLES], "input": QUESTION, "prompt": QUESTION, "query": QUESTION,
    "text": QUESTION, "question": QUESTION, "stream": False, "as": "json",
    # An answer names its passages, however short it is.
    "max_tokens": 2, "max_output_tokens": 2, "options": {"num_predict": 2},
    "start": 0, "end": 500, "number": 1, "limit": 100, "temperature": 0.0, "path": "/tmp",
}  # fmt: skip
# Has an answer say what it was written from. With ids in it, the cloud takes part as well.
_TELLING = {"dragon": {"private": True}}
# What stands in the place of another field, where a body has both.
_RATHER = {"prompt": {"input"}, "messages": {"prompt"}}


@dataclass(frozen=True)
class Attempt:
    """A request; `named`: its path has an id of another's."""

    method: str
    route: str
    path: str
    query: dict[str, Any]
    body: Any
    named: bool


def attempts(description: dict[str, Any], ids: Sequence[str]) -> Iterator[Attempt]:
    """For each operation of an OpenAPI description requests with each of the ids in each place."""
    seen = set()
    for route, operations in description["paths"].items():
        for method, operation in operations.items():
            for each in _of(description, route, method.upper(), operation, ids):
                if (told := repr(each)) not in seen:
                    seen.add(told)
                    yield each


def _of(
    description: dict[str, Any], route: str, method: str, operation: Any, ids: Sequence[str]
) -> Iterator[Attempt]:
    parameters = operation.get("parameters", ())
    places = [each["name"] for each in parameters if each["in"] == "path"]
    asked = [each for each in parameters if each["in"] == "query"]
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    last = route.rsplit("/", 1)[-1]
    for chosen in itertools.product(ids, repeat=len(places)):
        path = route
        for name, identity in zip(places, chosen, strict=True):
            path = path.replace(f"{{{name}}}", identity)
        needed = {each["name"]: _sense(each["name"], "") for each in asked if each.get("required")}
        bodies: list[Any] = [None]
        if schema is not None:
            maker = Maker(description, _MODELS.get(last, _MODEL))
            bodies = [body for each in chosen[:1] or ids for body in maker.all(schema, each)]
        for body in bodies:
            yield Attempt(method, route, path, needed, body, named=bool(places))
        for each in asked if not places else ():
            for identity in ids:
                query = needed | {each["name"]: identity}
                yield Attempt(method, route, path, query, bodies[0], named=False)


def _sense(name: str, otherwise: Any) -> Any:
    return _SENSE.get(name, otherwise)


@dataclass(frozen=True)
class Maker:
    """Makes values that fit schemas of a description."""

    description: dict[str, Any]
    model: str

    def all(self, schema: Any, identity: str) -> list[Any]:
        """Values with an id in one place after the other, the least first."""
        schema = self._whole(schema)
        if schema.get("type") != "object":
            return [self._value("", schema, identity)]
        own: dict[str, Any] = schema.get("properties", {})
        least = {
            name: self._value(name, own[name], identity) for name in schema.get("required", ())
        }
        for name in (
            "model",
            "stream",
            "max_tokens",
            "max_output_tokens",
            "options",
            "messages",
            "prompt",
        ):
            if name in own and not own.keys() & _RATHER.get(name, set()):
                least[name] = self._value(name, own[name], identity)
        if "dragon" in own:
            least |= _TELLING
        found = [least]
        for name, each in own.items():
            if name not in least or name in _TELLING:
                value = self._value(name, each, identity, optional=True)
                nested = self._whole(each)
                if nested.get("type") == "object":
                    found += [least | {name: inner} for inner in self.all(nested, identity)]
                elif _holds(value, identity):
                    found.append(least | {name: value})
        return found

    def _value(self, name: str, schema: Any, identity: str, *, optional: bool = False) -> Any:
        schema = self._whole(schema)
        if name == "model":
            return self.model
        if name in _SENSE and not optional:
            return _SENSE[name]
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "object":
                needed = schema.get("required", ())
                return {
                    each: self._value(each, schema["properties"][each], identity) for each in needed
                }
            case "array":
                return [self._value("", schema.get("items", {}), identity)]
            case "integer" | "number":
                return int(schema.get("minimum", 1))
            case "boolean":
                return False
        return identity

    def _whole(self, schema: Any) -> Any:
        """A schema itself: what it refers to, of several the first that is something."""
        while True:
            if "$ref" in schema:
                found: Any = self.description
                for step in schema["$ref"].removeprefix("#/").split("/"):
                    found = found[step]
                schema = found
            elif "properties" not in schema and (several := schema.get("anyOf")):
                schema = next(each for each in several if each.get("type") != "null")
            else:
                return schema


def _holds(value: Any, identity: str) -> bool:
    if isinstance(value, list):
        return any(_holds(each, identity) for each in value)
    return bool(value == identity)
