"""Pages of a list, as OpenAI's clients request them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

from dragon.errors import InvalidRequestError

Order = Literal["asc", "desc"]


class Listed(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Listed)


def page(newest_first: Sequence[T], limit: int, after: str | None, order: Order) -> dict[str, Any]:
    """The fields of a page: at most `limit` items after the one with id `after`.

    Raises `InvalidRequestError` if that is not in the list.
    """
    listed = list(newest_first if order == "desc" else reversed(newest_first))
    if after is not None:
        ids = [each.id for each in listed]
        if after not in ids:
            raise InvalidRequestError(f"There is no '{after}' in the list.", param="after")
        listed = listed[ids.index(after) + 1 :]
    data = listed[:limit]
    return {
        "data": data,
        "first_id": data[0].id if data else None,
        "last_id": data[-1].id if data else None,
        "has_more": len(listed) > limit,
    }
