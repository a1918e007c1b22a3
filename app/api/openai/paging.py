"""Pages of a list, as OpenAI's clients request them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel

from dragon.errors import InvalidRequestError

Order = Literal["asc", "desc"]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Paging:
    """At most `limit` items after the one with id `after`, newest first unless `asc`."""

    limit: int
    after: str | None = None
    order: Order = "desc"


def _paging(
    limit: Annotated[int, Query(ge=1, le=100)] = 20, after: str | None = None, order: Order = "desc"
) -> Paging:
    return Paging(limit, after, order)


Paged = Annotated[Paging, Depends(_paging)]


class Page(BaseModel, Generic[T]):
    """A page of items that have an `id`."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, newest_first: Sequence[Any], paging: Paging) -> Self:
        """The page of a list. Raises `InvalidRequestError` if `after` is not in it."""
        listed = list(newest_first if paging.order == "desc" else reversed(newest_first))
        if paging.after is not None:
            ids = [each.id for each in listed]
            if paging.after not in ids:
                raise InvalidRequestError(
                    f"There is no '{paging.after}' in the list.", param="after"
                )
            listed = listed[ids.index(paging.after) + 1 :]
        data = listed[: paging.limit]
        return cls(
            data=data,
            first_id=data[0].id if data else None,
            last_id=data[-1].id if data else None,
            has_more=len(listed) > paging.limit,
        )


class Deleted(BaseModel):
    """The reply to a deletion; `object` is the kind of object that was deleted."""

    id: str
    object: str
    deleted: Literal[True] = True
