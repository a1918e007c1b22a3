"""The exception hierarchy of DRAGON.

Each service maps these classes to HTTP statuses or link refusals in one place. Messages are shown
to the user: they say what is wrong and what to do about it.
"""

from __future__ import annotations


class DragonError(Exception):
    """Base class. `code` is a stable identifier for programs, the message is for people."""

    code = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(DragonError):
    """A setting is invalid; the service does not start."""

    code = "configuration_error"


class InvalidRequestError(DragonError):
    """The request cannot be served as it is. `param` names the field at fault."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        if code is not None:
            self.code = code


class ContextLengthError(InvalidRequestError):
    """The prompt and the requested tokens do not fit the model's context."""

    code = "context_length_exceeded"


class DocumentError(InvalidRequestError):
    """An uploaded document is rejected: empty, encrypted, of an unknown type, or without text."""

    code = "invalid_document"


class DocumentTooLargeError(DocumentError):
    """An uploaded document is over the size limit."""

    code = "document_too_large"


class AuthenticationError(DragonError):
    """The API key or the session cookie is missing or invalid."""

    code = "invalid_api_key"


class NotFoundError(DragonError):
    """The requested resource does not exist."""

    code = "not_found"


class NotYoursError(DragonError):
    """The resource belongs to someone else, who shares it for reading only."""

    code = "not_yours"


class OverloadedError(DragonError):
    """No slot is free; the same request may succeed later, after `retry_s` seconds if known."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class ModelServerError(DragonError):
    """The model server failed; the same request may succeed later."""

    code = "model_server_error"


class StorageError(DragonError):
    """The disk is full or not writable; the same request may succeed later."""

    code = "insufficient_storage"


class LinkError(DragonError):
    """An error on the link between device and peer."""

    code = "link_error"


class FrameError(LinkError):
    """A frame cannot be parsed: malformed, over a limit, or of an unknown kind."""

    code = "bad_frame"


class HandshakeError(LinkError):
    """The two sides are incompatible; the message says what to change."""

    code = "handshake_refused"


class PreemptedError(DragonError):
    """A forward pass was abandoned between layers because its result is no longer needed."""

    code = "preempted"
