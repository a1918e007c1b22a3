"""Limits every statement to the rows of the current owner: all sessions go through here.

The `owner` of a row is the current owner when it is made (`app.owners`). A session reads the rows
of the current owner and shared ones, and changes only the former; no statement needs to say so.
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import event, false, or_
from sqlalchemy.orm import (
    Mapped,
    ORMExecuteState,
    Session,
    UOWTransaction,
    mapped_column,
    with_loader_criteria,
)
from sqlalchemy.orm.interfaces import ORMOption

from app.owners import acting, may_all
from dragon.errors import NotYoursError
from dragon.localizable import localizable


class HasOwner:
    """The owner of a row."""

    owner: Mapped[str] = mapped_column(default=acting, server_default="")


class Owned(HasOwner):
    """A table whose rows only their owners read."""


class Shareable(HasOwner):
    """A table whose rows owners may let all others read, too."""

    shared: Mapped[bool] = mapped_column(default=False, server_default=false())


def require_own(row: HasOwner) -> None:
    """Raises `NotYoursError` for a row that the current owner may read but not change."""
    if not (may_all() or row.owner == acting()):
        others = "Another key shares this with you: only that one can change it."
        raise NotYoursError(localizable("file.others", others))


class OwnersSession(Session):
    """Restricts every statement to the rows of the current owner."""


@event.listens_for(OwnersSession, "do_orm_execute")
def _restrict(state: ORMExecuteState) -> None:
    if may_all():
        return
    if state.is_orm_statement:
        state.statement = state.statement.options(*_limits(acting(), reads=state.is_select))
    elif not state.is_insert:
        raise RuntimeError("a statement without mapped tables cannot be limited to an owner's rows")


@lru_cache(maxsize=256)
def _limits(owner: str, *, reads: bool) -> tuple[ORMOption, ...]:
    """The criteria that limit a statement to an owner's rows and, for reads, shared ones."""
    shared = (lambda table: or_(table.owner == owner, table.shared)) if reads else None
    own = lambda table: table.owner == owner  # noqa: E731 - SQLAlchemy wants a lambda
    return (
        with_loader_criteria(Owned, own, include_aliases=True),
        with_loader_criteria(Shareable, shared or own, include_aliases=True),
    )


@event.listens_for(OwnersSession, "before_flush")
def _keep_others(session: Session, _: UOWTransaction, __: object) -> None:
    for row in (*session.dirty, *session.deleted):
        if isinstance(row, HasOwner):
            require_own(row)
