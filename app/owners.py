"""Who acts: the owner of what is made, and for whom the database is read (`app.storage.owned`).

A request acts for its key's owner, and what it begins does, too. Where nobody is said to act,
nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

DEVICE = ""
"""Owns what the device's own key makes; a key with documents of its own is an owner by its name."""

NOBODY = "-"
"""Owns what has to stay of an owner whose data is erased; no key has that name."""

_EVERYONE = "*"
_ACTING: ContextVar[str] = ContextVar("acting")


def act_as(owner: str) -> None:
    """From here on, in this task and those it begins, `owner` acts."""
    _ACTING.set(owner)


@contextmanager
def acting_as(owner: str) -> Iterator[None]:
    """Within, `owner` acts."""
    token = _ACTING.set(owner)
    try:
        yield
    finally:
        _ACTING.reset(token)


def everyone() -> AbstractContextManager[None]:
    """Within, statements are for all rows: housekeeping, whose result nobody is shown."""
    return acting_as(_EVERYONE)


def acting() -> str:
    """Who acts. Raises `LookupError` where nobody does, and within `everyone`."""
    if (owner := _ACTING.get()) == _EVERYONE:
        raise LookupError("housekeeping has to say whose a row is")
    return owner


def may_all() -> bool:
    """Whether this is housekeeping, to which all rows are open. Raises `LookupError`."""
    return _ACTING.get() == _EVERYONE
