"""The current owner, who owns what is created and whose rows are read (`app.storage.owned`).

A request acts for its key's owner, and so does everything it starts. Without a current owner
nothing can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

DEVICE = ""
"""Owner of what the device's own key creates; a key with its own documents is an owner by name."""

NOBODY = "-"
"""Owner of what must remain after an owner's data is erased; no key has that name."""

_EVERYONE = "*"
_ACTING: ContextVar[str] = ContextVar("acting")


def act_as(owner: str) -> None:
    """From here on, `owner` acts, in this task and those it starts."""
    _ACTING.set(owner)


@contextmanager
def acting_as(owner: str) -> Iterator[None]:
    token = _ACTING.set(owner)
    try:
        yield
    finally:
        _ACTING.reset(token)


def everyone() -> AbstractContextManager[None]:
    """Let statements cover all rows in this context: for housekeeping, which shows no results."""
    return acting_as(_EVERYONE)


def acting() -> str:
    """The current owner. Raises `LookupError` if there is none, and within `everyone`."""
    if (owner := _ACTING.get()) == _EVERYONE:
        raise LookupError("housekeeping must name the owner of a row")
    return owner


def may_all() -> bool:
    """Whether statements cover all rows. Raises `LookupError` without a current owner."""
    return _ACTING.get() == _EVERYONE
