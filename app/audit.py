"""Reading the ledger: lists, one answer's frames, the whole chain, and whether it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger import BEGIN, END, GENESIS, Entry, digest_of
from app.models import LedgerAnswer, LedgerEntry
from dragon.errors import DragonError, NotFoundError

Sessions = async_sessionmaker[AsyncSession]

_READ_BATCH = 1000
_IS_FRAME = LedgerEntry.kind.not_in((BEGIN, END))


class LedgerDamagedError(DragonError):
    """The ledger is not what was written."""

    code = "ledger_damaged"


@dataclass(frozen=True)
class Summary:
    """An answer with how many frames and bytes left for it."""

    answer: LedgerAnswer
    frames: int
    bytes: int


@dataclass(frozen=True)
class Link:
    """An entry at its place; `previous` is the hash before it."""

    seq: int
    entry: Entry
    previous: str
    hash: str


@dataclass(frozen=True)
class Verified:
    """What a chain that holds consists of; `head` is its last hash, to be compared later."""

    answers: int
    entries: int
    head: str


async def answers(sessions: Sessions, limit: int, before: str | None) -> Sequence[Summary]:
    """Answers, newest first, from the one behind `before` on. Raises NotFoundError."""
    statement = (
        select(
            LedgerAnswer, func.count(LedgerEntry.seq), func.coalesce(func.sum(LedgerEntry.bytes), 0)
        )
        .join(LedgerEntry, (LedgerEntry.answer == LedgerAnswer.id) & _IS_FRAME, isouter=True)
        .group_by(LedgerAnswer.number)
        .order_by(LedgerAnswer.number.desc())
        .limit(limit)
    )
    async with sessions() as session:
        if before is not None:
            statement = statement.where(
                LedgerAnswer.number < (await _answer(session, before)).number
            )
        return [Summary(*row) for row in await session.execute(statement)]


async def answer(sessions: Sessions, answer_id: str) -> tuple[LedgerAnswer, Sequence[Link]]:
    """An answer with its frames in the order they were sent. Raises NotFoundError."""
    async with sessions() as session:
        row = await _answer(session, answer_id)
        statement = (
            select(LedgerEntry)
            .where(LedgerEntry.answer == answer_id, _IS_FRAME)
            .order_by(LedgerEntry.seq)
        )
        found = list(await session.scalars(statement))
        # The hash before a frame's may be another answer's entry.
        before = [entry.seq - 1 for entry in found]
        hashes = select(LedgerEntry.seq, LedgerEntry.hash).where(LedgerEntry.seq.in_(before))
        previous = {row.seq: row.hash for row in await session.execute(hashes)}
        return row, [_link(each, previous.get(each.seq - 1, GENESIS)) for each in found]


async def chain(sessions: Sessions) -> AsyncIterator[Link]:
    """Every entry, from the first on."""
    seq, previous = -1, GENESIS
    while True:
        statement = (
            select(LedgerEntry)
            .where(LedgerEntry.seq > seq)
            .order_by(LedgerEntry.seq)
            .limit(_READ_BATCH)
        )
        async with sessions() as session:
            batch = (await session.scalars(statement)).all()
        if not batch:
            return
        for each in batch:
            yield _link(each, previous)
            seq, previous = each.seq, each.hash


async def verify(sessions: Sessions) -> Verified:
    """Check every entry, and every answer's row. Raises `LedgerDamagedError` at the first fault."""
    async with sessions() as session:
        rows = {row.id: row for row in await session.scalars(select(LedgerAnswer))}
    begun: set[str] = set()
    ended: set[str] = set()
    head, count = GENESIS, 0
    async for link in chain(sessions):
        count += 1
        if link.seq != count:
            raise LedgerDamagedError(f"Entry {count} is missing.")
        if link.entry.hash(link.seq, head) != link.hash:
            raise LedgerDamagedError(f"Entry {count} was changed, or one before it was removed.")
        head = link.hash
        row = rows.get(link.entry.answer)
        if row is None:
            raise LedgerDamagedError(f"Answer {link.entry.answer} is missing (entry {count}).")
        if link.entry.kind in (BEGIN, END):
            (begun if link.entry.kind == BEGIN else ended).add(row.id)
            said = _begin(row) if link.entry.kind == BEGIN else _end(row)
            if digest_of(said) != link.entry.digest:
                raise LedgerDamagedError(f"What is said of answer {row.id} was changed.")
    if surplus := rows.keys() - begun:
        raise LedgerDamagedError(f"The first entry of answer {min(surplus)} is missing.")
    if surplus := {row.id for row in rows.values() if row.documents is not None} - ended:
        raise LedgerDamagedError(f"The last entry of answer {min(surplus)} is missing.")
    return Verified(len(rows), count, head)


def _begin(row: LedgerAnswer) -> dict[str, object]:
    return {"id": row.id, "started_at": row.started_at, "private": row.private}


def _end(row: LedgerAnswer) -> dict[str, object]:
    return {"documents": row.documents, "drafts": row.drafts, "answer": row.answer}


def _link(row: LedgerEntry, previous: str) -> Link:
    entry = Entry(row.answer, row.at, row.kind, row.bytes, row.digest)
    return Link(row.seq, entry, previous, row.hash)


async def _answer(session: AsyncSession, answer_id: str) -> LedgerAnswer:
    row = await session.scalar(select(LedgerAnswer).where(LedgerAnswer.id == answer_id))
    if row is None:
        raise NotFoundError(f"The ledger knows no answer '{answer_id}'.")
    return row
