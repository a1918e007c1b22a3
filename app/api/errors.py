"""Errors as HTTP responses, in the shape of the API that was called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from app.problems import INTERNAL, Problem, problem
from dragon.errors import DragonError
from dragon.localizable import Localizable

LOCALIZABLE = "X-Dragon-Localizable"
"""The header from which the page translates a message."""
MESSAGES = "/v1/messages"
"""The path prefix of Anthropic's API."""
OLLAMA = frozenset(
    f"/api/{name}"
    for name in ("chat", "embed", "embeddings", "generate", "ps", "show", "tags", "version")
)
"""The paths of Ollama's API."""
_LONGEST = 8192  # clients may reject longer headers
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
# The framework's details for an unknown route.
_NO_ROUTE = frozenset({"Not Found", "Method Not Allowed"})
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


def error_response(
    scope: Scope, found: Problem, headers: Mapping[str, str] | None = None
) -> Response:
    """A problem as the response to the request of this scope."""
    path = scope["path"]
    body = found.as_ollama() if path in OLLAMA else found.body()
    own = dict(_HEADERS.get(found.status, {}))
    if isinstance(found.message, Localizable):
        header = json.dumps(found.message.as_json())  # ASCII
        own |= {LOCALIZABLE: header} if len(header) < _LONGEST else {}
    return Response(
        orjson.dumps(found.as_anthropic() if path.startswith(MESSAGES) else body),
        found.status,
        {**own, **(headers or {})},
        "application/json",
    )


def install(app: FastAPI) -> None:
    """Answer every error that a route raises on purpose. The middleware answers the others."""
    for kind in (DragonError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(ClientDisconnect, _nobody)


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        return error_response(request.scope, _malformed(error))
    if isinstance(error, HTTPException):
        return error_response(request.scope, _refused(request, error), error.headers)
    if (found := problem(error)) is INTERNAL:
        raise error  # to the middleware, which logs it with the request's id
    return error_response(request.scope, found)


def _malformed(error: RequestValidationError) -> Problem:
    if isinstance(error.body, bytes):  # not declared as JSON, hence not parsed
        return Problem(
            400,
            "Send the body as JSON, with Content-Type: application/json.",
            code="unsupported_content_type",
        )
    return validation_problem(error.errors()[0], "The body must be a JSON object.", error.body)


def _refused(request: Request, error: HTTPException) -> Problem:
    found = Problem(error.status_code, str(error.detail), code=_HTTP_CODES.get(error.status_code))
    if error.detail not in _NO_ROUTE:
        return found
    if allowed := (error.headers or {}).get("Allow"):
        message = f"{request.url.path} takes {allowed}, not {request.method}."
    else:
        message = f"There is no {request.url.path}; /openapi.json lists what there is."
    return replace(found, message=message)


async def _nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it, except the log and the metrics


def validation_problem(detail: Mapping[str, Any], unreadable: str, body: Any = None) -> Problem:
    """The problem for a pydantic error in `body`; `unreadable` is for one in the body as a whole.

    The first step of the error's location is the input's own name and is left out.
    """
    kind, param = str(detail["type"]), _param(tuple(detail["loc"][1:]), body)
    if kind == "json_invalid":
        reason = detail.get("ctx", {}).get("error", "")
        return Problem(400, f"The body is not valid JSON: {reason}", code="invalid_json")
    if param is None:
        return Problem(400, unreadable, code="invalid_value")
    if kind == "missing":
        code = "missing_required_parameter"
        return Problem(400, f"Missing required parameter: {param}", param=param, code=code)
    if kind == "extra_forbidden":
        code = "unknown_parameter"
        return Problem(400, f"Unrecognized request argument: {param}", param=param, code=code)
    if kind == "union_tag_invalid":
        given, known = detail["ctx"]["tag"], detail["ctx"]["expected_tags"]
        message = f"{param}: the type {given!r} is not supported by this server; it takes {known}"
        return Problem(400, message, param=param, code="unsupported_parameter")
    # Our own validators' codes are meant for programs; pydantic's names stay internal.
    code = kind if kind == "unsupported_parameter" else "invalid_value"
    return Problem(400, f"{param}: {detail['msg']}", param=param, code=code)


def _param(location: tuple[str | int, ...], body: Any) -> str | None:
    """`("messages", 0, "role")` as `messages[0].role`.

    Steps that name a member of a union are left out: they are not in the `body`.
    """
    name = ""
    for place, step in enumerate(location):
        if isinstance(step, int):
            name += f"[{step}]"
            body = body[step] if isinstance(body, list) and step < len(body) else None
        elif isinstance(body, dict) and step in body:
            name, body = f"{name}.{step}", body[step]
        elif body is None or (isinstance(body, dict) and place == len(location) - 1):
            name += f".{step}" if step.isidentifier() else ""
    return name.removeprefix(".") or None
