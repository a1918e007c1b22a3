"""The privacy budgets that passages have spent, over all bounded answers.

A passage is identified by the SHA-256 of its text and its owner: deleting a document and adding it
again restores nothing, and spending by one owner reveals nothing about another's. What an answer
may spend is reserved before its first word leaves, and what it did not need is refunded when it has
ended; if the device is killed in between, all of it is spent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage.tables import PassageSpending
from dragon.errors import InvalidRequestError
from dragon.localizable import localizable
from dragon.sampling.privacy import Budget, epsilon_of

log = logging.getLogger(__name__)


def digest_of_passage(text: str, owner: str) -> str:
    return hashlib.sha256((f"{owner}\0{text}" if owner else text).encode()).hexdigest()


@dataclass
class Spending:
    """The spending of every passage."""

    sessions: async_sessionmaker[AsyncSession]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _refunds: set[asyncio.Task[None]] = field(default_factory=set)

    async def reserve(self, passages: Sequence[str], budget: Budget, limit: float) -> None:
        """Reserve what an answer from these passages, by digest, may spend; `limit` is per passage.

        Raises `InvalidRequestError`, and reserves nothing, if a passage has too little left.
        """
        async with self._turn, self.sessions.begin() as session:
            for passage in passages:
                spent = await _spent(session, passage)
                spent[budget.order] = spent.get(budget.order, 0.0) + budget.total
                if (total := _epsilon(spent)) > limit:
                    over = (
                        "epsilon: with this answer a passage that it would be written from has "
                        "spent {spent} of the {limit} that it has for good; ask with cloud: never, "
                        "or without that document"
                    )
                    message = localizable(
                        "budget.spent", over, spent=f"{total:.1f}", limit=f"{limit:g}"
                    )
                    raise InvalidRequestError(message, param="dragon.epsilon")
                await _add(session, passage, budget.order, budget.total)

    def settle(self, passages: Sequence[str], budget: Budget) -> None:
        """Refund what an answer did not need."""
        task = asyncio.create_task(self._refund(passages, budget))
        self._refunds.add(task)
        task.add_done_callback(self._refunds.discard)

    async def spent(self, passages: Sequence[str]) -> list[float]:
        """The epsilon that each has spent so far."""
        await self.settled()
        async with self.sessions() as session:
            return [_epsilon(await _spent(session, passage)) for passage in passages]

    async def settled(self) -> None:
        """Return once all refunds are on disk."""
        await asyncio.gather(*self._refunds)

    async def _refund(self, passages: Sequence[str], budget: Budget) -> None:
        try:
            async with self._turn, self.sessions.begin() as session:
                for passage in passages:
                    await _add(session, passage, budget.order, budget.spent - budget.total)
        except Exception:
            log.exception("what an answer did not spend could not be refunded to its passages")


async def _spent(session: AsyncSession, passage: str) -> dict[float, float]:
    """A passage's spending as RDP, by order."""
    of_passage = select(PassageSpending).where(PassageSpending.digest == passage)
    return {row.order: row.rdp for row in await session.scalars(of_passage)}


async def _add(session: AsyncSession, passage: str, order: float, rdp: float) -> None:
    added = insert(PassageSpending).values(digest=passage, order=order, rdp=rdp)
    keys = ["digest", "order"]
    total = {"rdp": PassageSpending.rdp + rdp}
    await session.execute(added.on_conflict_do_update(keys, set_=total))


def _epsilon(spent: dict[float, float]) -> float:
    """RDP adds up over answers of one order, epsilon over orders."""
    # Refunds leave rounding errors.
    return sum(epsilon_of(order, rdp) for order, rdp in spent.items() if rdp > 1e-12)
