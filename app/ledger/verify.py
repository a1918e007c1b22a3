"""Reads the ledger: answers, their frames, what programs read, the whole chain. Verifies it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.leakage import Asked, Left, Part, PartKind
from app.ledger.writer import BEGIN, END, GENESIS, READ, digest_of, hash_of, stated
from app.owners import acting, everyone
from app.storage.tables import LedgerAnswer, LedgerEntry, LedgerRead
from dragon.errors import DragonError, InvalidRequestError, NotFoundError

Sessions = async_sessionmaker[AsyncSession]
Linked = tuple[LedgerEntry, str]
"""An entry in the chain, and the hash before it."""

_READ_BATCH = 1000
_IS_FRAME = LedgerEntry.kind.not_in((BEGIN, END))


class LedgerDamagedError(DragonError):
    """The ledger was altered after it was written."""

    code = "ledger_damaged"


@dataclass(frozen=True)
class Verified:
    """The size of an intact chain; `head` is its last hash, for a later comparison."""

    answers: int
    entries: int
    head: str


async def answers(
    sessions: Sessions, limit: int, before: str | None
) -> list[tuple[LedgerAnswer, int, int]]:
    """Answers, newest first, each with the number of frames and bytes sent for it.

    With `before`, those older than that one. Raises `InvalidRequestError` if there is none.
    """
    size = func.coalesce(func.sum(LedgerEntry.bytes), 0)
    newest_first = (
        select(LedgerAnswer, func.count(LedgerEntry.seq), size)
        .join(LedgerEntry, (LedgerEntry.answer == LedgerAnswer.id) & _IS_FRAME, isouter=True)
        .group_by(LedgerAnswer.number)
        .order_by(LedgerAnswer.number.desc())
        .limit(limit)
    )
    async with sessions() as session:
        if before is not None:
            number = await _number(session, LedgerAnswer, before)
            newest_first = newest_first.where(LedgerAnswer.number < number)
        return [(row, frames, sent) for row, frames, sent in await session.execute(newest_first)]


async def reads(sessions: Sessions, limit: int, before: str | None) -> Sequence[LedgerRead]:
    """What programs were given, newest first; `before` as for `answers`."""
    newest_first = select(LedgerRead).order_by(LedgerRead.number.desc()).limit(limit)
    async with sessions() as session:
        if before is not None:
            number = await _number(session, LedgerRead, before)
            newest_first = newest_first.where(LedgerRead.number < number)
        return (await session.scalars(newest_first)).all()


async def _number(
    session: AsyncSession, table: type[LedgerAnswer] | type[LedgerRead], identity: str
) -> int:
    number: int | None = await session.scalar(select(table.number).where(table.id == identity))
    if number is None:
        what = "answer" if table is LedgerAnswer else "read"
        raise InvalidRequestError(f"The ledger has no {what} '{identity}'.", param="before")
    return number


async def answer(sessions: Sessions, answer_id: str) -> tuple[LedgerAnswer, list[Linked]]:
    """An answer with its frames in the order they were sent. Raises `NotFoundError`."""
    frames = select(LedgerEntry).where(LedgerEntry.answer == answer_id, _IS_FRAME)
    async with sessions() as session:
        row = await session.scalar(select(LedgerAnswer).where(LedgerAnswer.id == answer_id))
        if row is None:
            raise NotFoundError(f"The ledger has no answer '{answer_id}'.")
        found = (await session.scalars(frames.order_by(LedgerEntry.seq))).all()
        before = [entry.seq - 1 for entry in found]
        hashes = select(LedgerEntry.seq, LedgerEntry.hash).where(LedgerEntry.seq.in_(before))
        with everyone():  # the entry before a frame's may be another answer's, or another owner's
            previous = {row.seq: row.hash for row in await session.execute(hashes)}
        return row, [(each, previous.get(each.seq - 1, GENESIS)) for each in found]


def left(row: LedgerAnswer) -> Left | None:
    """What left for an answer; None while it is written, or if it is older than this record."""
    if row.asked is None:
        return None
    given = None if row.given is None else [Part(PartKind(p["kind"]), p["text"]) for p in row.given]
    return Left(Asked(row.asked), row.words, given)


async def chain(sessions: Sessions) -> AsyncIterator[Linked]:
    """The current owner's entries, oldest first; the previous hash may be another owner's."""
    owner, seq, previous = acting(), -1, GENESIS
    while True:
        with everyone():
            async with sessions() as session:
                batch = await _batch(session, seq)
        if not batch:
            return
        for each in batch:
            if each.owner == owner:
                yield each, previous
            seq, previous = each.seq, each.hash


async def _batch(session: AsyncSession, behind: int) -> Sequence[LedgerEntry]:
    later = select(LedgerEntry).where(LedgerEntry.seq > behind).order_by(LedgerEntry.seq)
    return (await session.scalars(later.limit(_READ_BATCH))).all()


async def verify(sessions: Sessions) -> Verified:
    """Check every entry and every row it covers. Raises `LedgerDamagedError` at the first fault."""
    begun: set[str] = set()
    ended: set[str] = set()
    head, count = GENESIS, 0
    with everyone():
        async with sessions() as session:
            # Read one snapshot, since answers may be written meanwhile.
            await session.execute(text("BEGIN"))
            rows = {row.id: row for row in await session.scalars(select(LedgerAnswer))}
            unread = {row.id: row for row in await session.scalars(select(LedgerRead))}
            while batch := await _batch(session, count):
                for each in batch:
                    count += 1
                    _check_link(each, count, head)
                    head = each.hash
                    if each.kind == READ:
                        _check_read(each, unread.pop(each.answer, None))
                        continue
                    _check_answer(each, rows.get(each.answer))
                    if each.kind in (BEGIN, END):
                        (begun if each.kind == BEGIN else ended).add(each.answer)
    over = {row.id for row in rows.values() if row.documents is not None}
    for lacking, what in (
        (unread.keys(), "The entry of"),
        (rows.keys() - begun, "The first entry of answer"),
        (over - ended, "The last entry of answer"),
    ):
        if lacking:
            raise LedgerDamagedError(f"{what} {min(lacking)} is missing.")
    return Verified(len(rows), count, head)


def _check_link(row: LedgerEntry, seq: int, head: str) -> None:
    if row.seq != seq:
        raise LedgerDamagedError(f"Entry {seq} is missing.")
    if hash_of(row, seq, head) != row.hash:
        raise LedgerDamagedError(f"Entry {seq} was changed, or one before it was removed.")


def _check_answer(entry: LedgerEntry, row: LedgerAnswer | None) -> None:
    if row is None:
        raise LedgerDamagedError(f"Answer {entry.answer} is missing (entry {entry.seq}).")
    if entry.kind in (BEGIN, END):
        begun = {"id": row.id, "started_at": row.started_at, "private": row.private}
        said = begun if entry.kind == BEGIN else _end(row)
        kept = ((row.words, row.digest), (row.given, row.given_digest))
        whole = all(each is None or digest_of(each) == digest for each, digest in kept)
        if digest_of(said) != entry.digest or not whole:
            raise LedgerDamagedError(f"The record of answer {row.id} was changed.")


def _check_read(entry: LedgerEntry, row: LedgerRead | None) -> None:
    if row is None:
        raise LedgerDamagedError(f"{entry.answer} is missing (entry {entry.seq}).")
    whole = row.passages is None or digest_of(row.passages) == row.digest
    if digest_of(stated(row, row.digest)) != entry.digest or not whole:
        raise LedgerDamagedError(f"The record of {row.id} was changed.")


def _end(row: LedgerAnswer) -> dict[str, object]:
    """What the last entry of an answer covers; older ones cover less."""
    names = ["documents", "drafts", "answer"]
    if row.asked is not None:
        names += ["asked", "digest"]
        names += ["given_digest"] if row.given_digest is not None else []
        names += ["epsilon"] if row.epsilon is not None else []
    return {name: getattr(row, name) for name in names}
