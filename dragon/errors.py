"""Every error DRAGON raises on purpose, as one tree.

The services map these classes to HTTP statuses and link refusals in one place each, so a message
here is what a person reads: it says what is wrong and what to do about it.
"""

from __future__ import annotations


class DragonError(Exception):
    """Root of the tree. `code` is stable and meant for programs, the message for people."""

    code = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(DragonError):
    """A setting is wrong; the service does not start."""

    code = "configuration_error"


class InvalidRequestError(DragonError):
    """The caller asked for something that cannot be done. `param` names the field at fault."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        if code is not None:
            self.code = code


class ContextLengthError(InvalidRequestError):
    """The prompt, with the tokens asked for, does not fit the model's context."""

    code = "context_length_exceeded"


class DocumentError(InvalidRequestError):
    """An uploaded document cannot be taken: empty, encrypted, of an unknown kind, no text."""

    code = "invalid_document"


class DocumentTooLargeError(DocumentError):
    """An uploaded document is over the size limit."""

    code = "document_too_large"


class AuthenticationError(DragonError):
    """The key or the session cookie is missing or wrong."""

    code = "invalid_api_key"


class NotFoundError(DragonError):
    """The thing named does not exist."""

    code = "not_found"


class OverloadedError(DragonError):
    """No slot is free now; the same request may succeed later."""

    code = "overloaded"


class LinkError(DragonError):
    """Something is wrong on the link between device and peer."""

    code = "link_error"


class FrameError(LinkError):
    """A frame cannot be parsed: garbage, over a bound, or of an unknown kind."""

    code = "bad_frame"


class HandshakeError(LinkError):
    """The two sides cannot work together; the message says what to change."""

    code = "handshake_refused"


class PreemptedError(DragonError):
    """A forward pass was abandoned between layers because its result is no longer wanted."""

    code = "preempted"
