"""Whose rows a statement may touch: every session goes through here.

Each row of a person's has an `owner`, set where it is made: whoever acts then (`app.owners`). A
session reads the rows of whoever acts now, and those that are shared, and changes only the former;
no statement says so itself.
"""

from __future__ import annotations

from sqlalchemy import event, false, or_
from sqlalchemy.orm import (
    Mapped,
    ORMExecuteState,
    Session,
    UOWTransaction,
    mapped_column,
    with_loader_criteria,
)

from app.owners import acting, may_all
from dragon.errors import NotYoursError
from dragon.localizable import localizable

OTHERS = localizable(
    "file.others", "Another key shares this with you: only that one can change it."
)


class HasOwner:
    """Who made a row."""

    owner: Mapped[str] = mapped_column(default=acting, server_default="")


class Owned(HasOwner):
    """A table whose rows their owners alone read."""


class Shareable(HasOwner):
    """A table whose rows their owners may let all others read, too."""

    shared: Mapped[bool] = mapped_column(default=False, server_default=false())


def require_own(row: HasOwner) -> None:
    """Raises `NotYoursError` for a row that whoever acts may read, and not change."""
    if not (may_all() or row.owner == acting()):
        raise NotYoursError(OTHERS)


class OwnersSession(Session):
    """Restricts every statement to the rows of whoever acts."""


@event.listens_for(OwnersSession, "do_orm_execute")
def _restrict(state: ORMExecuteState) -> None:
    if may_all():
        return
    owner = acting()
    if not state.is_orm_statement:
        if state.is_insert:
            return
        raise RuntimeError("a statement without mapped tables cannot be limited to its reader's")

    own = with_loader_criteria(Owned, lambda table: table.owner == owner, include_aliases=True)
    shareable = with_loader_criteria(
        Shareable,
        (lambda table: or_(table.owner == owner, table.shared))
        if state.is_select
        else (lambda table: table.owner == owner),
        include_aliases=True,
    )
    state.statement = state.statement.options(own, shareable)


@event.listens_for(OwnersSession, "before_flush")
def _keep_others(session: Session, _: UOWTransaction, __: object) -> None:
    for row in (*session.dirty, *session.deleted):
        if isinstance(row, HasOwner):
            require_own(row)
