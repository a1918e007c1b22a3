"""Failures as clients see them, and the one policy for unexpected errors."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from app.disk import cause_of, is_of_disk
from dragon.errors import (
    AuthenticationError,
    DocumentTooLargeError,
    DragonError,
    InvalidRequestError,
    LinkError,
    ModelServerError,
    NotFoundError,
    NotYoursError,
    OverloadedError,
    StorageError,
)
from dragon.localizable import encodable, localizable, with_localizable

log = logging.getLogger("dragon.errors")

# The first matching class decides, so subclasses come before their parents.
_STATUS: tuple[tuple[type[DragonError], int, str], ...] = (
    (AuthenticationError, 401, "authentication_error"),
    (NotFoundError, 404, "invalid_request_error"),
    (NotYoursError, 403, "permission_error"),
    (DocumentTooLargeError, 413, "invalid_request_error"),
    (InvalidRequestError, 400, "invalid_request_error"),
    (OverloadedError, 503, "overloaded_error"),
    (StorageError, 507, "server_error"),
    (LinkError, 502, "server_error"),
    (ModelServerError, 502, "server_error"),
)

_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


@dataclass(frozen=True)
class Problem:
    """A failure as a client sees it; `status` is the HTTP status."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None

    def body(self) -> dict[str, Any]:
        """`{"error": {...}}`, as the API's clients get it."""
        return {
            "error": {
                "message": encodable(self.message),
                "type": self.type,
                "param": self.param and encodable(self.param),
                "code": self.code,
            }
        }

    def as_anthropic(self) -> dict[str, Any]:
        """The same in Anthropic's form."""
        usual = "api_error" if self.status >= 500 else "invalid_request_error"
        kind = _ANTHROPIC.get(self.status, usual)
        return {"type": "error", "error": {"type": kind, "message": encodable(self.message)}}

    def as_ollama(self) -> dict[str, str]:
        """The same in Ollama's form."""
        return {"error": encodable(self.message)}

    def shown(self) -> dict[str, Any]:
        """The body, with what is needed to translate it, as stored and sent to the page."""
        message = with_localizable({"message": self.message}).get("localizable")
        return self.body() | ({"localizable": message} if message else {})


INTERNAL = Problem(
    500,
    localizable(
        "device.failed",
        "Something went wrong in the device service; its log, under this request's id, says what.",
    ),
    "server_error",
    code="internal_error",
)

DISK = Problem(
    507,
    localizable(
        "disk.failed",
        "The device cannot read or write its disk now. Make room on it, and try again.",
    ),
    "server_error",
    code=StorageError.code,
)


def problem(error: Exception) -> Problem:
    """The problem to show a client for an error: `INTERNAL` for an unexpected one."""
    if isinstance(error, DragonError):
        for kind, status, name in _STATUS:
            if isinstance(error, kind):
                param = getattr(error, "param", None)
                return Problem(status, error.message, name, param, error.code)
    return DISK if is_of_disk(error) else INTERNAL


def reported(error: Exception, failed: str) -> Problem:
    """The problem to reply with; the traceback of an unexpected error goes to the log only.

    `failed` says in the log what failed.
    """
    found = problem(error)
    if found is INTERNAL:
        log.error("%s failed", failed, exc_info=error)
    elif found is DISK:
        log.error("%s failed: %s", failed, cause_of(error))
    return found
