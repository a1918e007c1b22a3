"""`/openapi.json`: FastAPI's description of the routes, and their common errors."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.errors import MESSAGES, OLLAMA
from app.api.openai.replies import ChatCompletionChunk, CompletionChunk
from app.auth import needs_key

_REF = "#/components/schemas/"
_REASONS = {
    400: "The request is invalid; `param` says where, the message what to do.",
    401: "The key is missing or wrong.",
    403: "The key may not do this, or a page of another origin used the browser's cookie.",
    404: "The named resource does not exist.",
    413: "The body is too large.",
    500: "An internal error; the service's log has the details.",
    502: "The cloud peer was needed but could not be asked.",
    503: "Too many requests at once; the same request may succeed later.",
}


class ErrorBody(BaseModel):
    """What went wrong; `code` is stable and meant for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """The shape of every failure."""

    error: ErrorBody


class MessageErrorBody(BaseModel):
    """What went wrong, in Anthropic's form."""

    type: str
    message: str


class MessageErrorReply(BaseModel):
    """The shape of every failure in Anthropic's API."""

    type: Literal["error"]
    error: MessageErrorBody


class OllamaErrorReply(BaseModel):
    """The shape of every failure in Ollama's API."""

    error: str


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """A route's declaration of its own failures."""
    return {status: {"description": _REASONS[status]} for status in statuses}


def streamed(chunk: type[BaseModel]) -> dict[str, Any]:
    """A route's declaration of its 200 if it may also be a stream of `chunk`."""
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": f"{_REF}{chunk.__name__}"},
    }
    either = {"anyOf": [data, {"const": "[DONE]"}]}
    event = {"type": "object", "required": ["data"], "properties": {"data": either}}
    return {
        "content": {"text/event-stream": {"schema": event}},
        "description": "At once; with `stream`, server-sent events: chunks, then `[DONE]`.",
    }


def install(app: FastAPI) -> None:
    """Describe the app's routes, on first request."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    described = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = described["components"]
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    schemas = components["schemas"]
    errors = ErrorReply, MessageErrorReply, OllamaErrorReply
    others = models_json_schema(
        [(each, "serialization") for each in (ChatCompletionChunk, CompletionChunk, *errors)],
        ref_template=f"{_REF}{{model}}",
    )[1]["$defs"]
    schemas |= {name: schema for name, schema in others.items() if name not in schemas}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    return described


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add the key, the failures that the route itself does not cause, and the shape of all."""
    responses = operation["responses"]
    responses.pop("422", None)  # invalid input is a 400 here
    statuses = {400, 500}
    if needs_key(path):
        operation["security"] = [{"key": []}]
        statuses |= {401, 403}
    if "{" in path:
        statuses.add(404)
    if "requestBody" in operation:
        statuses.add(413)
    shape: type[BaseModel] = OllamaErrorReply if path in OLLAMA else ErrorReply
    if path.startswith(MESSAGES):
        shape = MessageErrorReply
    content = {"application/json": {"schema": {"$ref": f"{_REF}{shape.__name__}"}}}
    own = {int(known) for known, response in responses.items() if "content" in response}
    for status in (statuses | {int(known) for known in responses if int(known) >= 400}) - own:
        responses[str(status)] = {"description": _REASONS[status], "content": content}
    operation["responses"] = dict(sorted(responses.items()))
