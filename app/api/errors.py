"""The one place where errors become HTTP: every failure leaves in OpenAI's error shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dragon.errors import (
    AuthenticationError,
    DocumentTooLargeError,
    DragonError,
    InvalidRequestError,
    LinkError,
    NotFoundError,
    OverloadedError,
)

# The first class that fits decides, so subclasses stand before their parents.
_STATUS: tuple[tuple[type[DragonError], int, str], ...] = (
    (AuthenticationError, 401, "authentication_error"),
    (NotFoundError, 404, "invalid_request_error"),
    (DocumentTooLargeError, 413, "invalid_request_error"),
    (InvalidRequestError, 400, "invalid_request_error"),
    (OverloadedError, 503, "overloaded_error"),
    (LinkError, 502, "server_error"),
)
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
# What the framework says of a route it does not have.
_UNSAID = frozenset({"Not Found", "Method Not Allowed"})
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


@dataclass(frozen=True)
class Problem:
    """A failure as a client sees it."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None

    def body(self) -> dict[str, Any]:
        """`{"error": {...}}`, the same over HTTP, in a stream and on the browser's socket."""
        return {
            "error": {
                "message": _encodable(self.message),
                "type": self.type,
                "param": self.param and _encodable(self.param),
                "code": self.code,
            }
        }

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """The problem as a response of its own."""
        return Response(
            orjson.dumps(self.body()),
            self.status,
            {**_HEADERS.get(self.status, {}), **(headers or {})},
            "application/json",
        )


def _encodable(text: str) -> str:
    """A message may quote a request's half surrogate pairs, which no encoding takes."""
    return text.encode("utf-8", "replace").decode()


INTERNAL = Problem(
    500,
    "Something went wrong in the device service; its log, under this request's id, says what.",
    "server_error",
    code="internal_error",
)


def problem(error: Exception) -> Problem:
    """What a client is told of `error`; nothing of an unexpected one."""
    match error:
        case RequestValidationError(body=bytes()):  # not said to be JSON, hence not parsed
            return Problem(
                400,
                "Send the body as JSON, with Content-Type: application/json.",
                code="unsupported_content_type",
            )
        case RequestValidationError():
            return invalid(error.errors()[0], "The body must be a JSON object.")
        case HTTPException(status_code=status):
            return Problem(status, str(error.detail), code=_HTTP_CODES.get(status))
        case DragonError():
            for kind, status, name in _STATUS:
                if isinstance(error, kind):
                    param = getattr(error, "param", None)
                    return Problem(status, error.message, name, param, error.code)
    return INTERNAL


def install(app: FastAPI) -> None:
    """Answer every error a route raises on purpose. The middleware answers the others."""
    for kind in (DragonError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(ClientDisconnect, _nobody)


async def _answer(request: Request, error: Exception) -> Response:
    found = problem(error)
    if isinstance(error, HTTPException) and error.detail in _UNSAID:
        found = replace(found, message=_no_route(request, error))
    if found.status >= 500 and found is INTERNAL:
        raise error  # to the middleware, which logs it with the request's id
    return found.response(error.headers if isinstance(error, HTTPException) else None)


def _no_route(request: Request, error: HTTPException) -> str:
    if allowed := (error.headers or {}).get("Allow"):
        return f"{request.url.path} takes {allowed}, not {request.method}."
    return f"There is no {request.url.path}; /openapi.json lists what there is."


async def _nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the log and the metrics do


def invalid(detail: Mapping[str, Any], unreadable: str) -> Problem:
    """The problem of one pydantic error; `unreadable` is said when the whole input is of no use.

    The first step of the error's place is taken for the input's own name and left out.
    """
    kind, param = str(detail["type"]), _param(tuple(detail["loc"]))
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
    # Codes of our own validators are meant for programs; pydantic's names stay inside.
    code = kind if kind == "unsupported_parameter" else "invalid_value"
    return Problem(400, f"{param}: {detail['msg']}", param=param, code=code)


def _param(place: tuple[str | int, ...]) -> str | None:
    """`("body", "messages", 0, "role")` as `messages[0].role`."""
    name = ""
    for step in place[1:]:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else str(step)
    return name or None
