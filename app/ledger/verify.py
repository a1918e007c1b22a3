"""Reads the ledger: answers, one answer's frames and the whole chain. Verifies the chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.leakage import Asked, Left, Part, PartKind
from app.ledger.reads import ProgramRead
from app.ledger.writer import BEGIN, END, GENESIS, READ, Entry, digest_of
from app.owners import acting, everyone
from app.storage.tables import LedgerAnswer, LedgerEntry, LedgerRead
from dragon.errors import DragonError, InvalidRequestError, NotFoundError

Sessions = async_sessionmaker[AsyncSession]

_READ_BATCH = 1000
_IS_FRAME = LedgerEntry.kind.not_in((BEGIN, END))


class LedgerDamagedError(DragonError):
    """The ledger was altered after it was written."""

    code = "ledger_damaged"


@dataclass(frozen=True)
class AnswerTraffic:
    """An answer with the number of frames and bytes sent for it."""

    answer: LedgerAnswer
    frames: int
    bytes: int


@dataclass(frozen=True)
class ChainEntry:
    """An entry in the chain; `previous` is the hash before it."""

    seq: int
    entry: Entry
    previous: str
    hash: str


@dataclass(frozen=True)
class Verified:
    """The size of an intact chain; `head` is its last hash, for a later comparison."""

    answers: int
    entries: int
    head: str


async def answers(sessions: Sessions, limit: int, before: str | None) -> Sequence[AnswerTraffic]:
    """Answers, newest first, older than `before` if given.

    Raises `InvalidRequestError` if the ledger has no answer `before`.
    """
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
            row = await _find(session, before)
            if row is None:
                raise InvalidRequestError(f"There is no answer '{before}'.", param="before")
            statement = statement.where(LedgerAnswer.number < row.number)
        return [AnswerTraffic(*row) for row in await session.execute(statement)]


async def answer(sessions: Sessions, answer_id: str) -> tuple[LedgerAnswer, Sequence[ChainEntry]]:
    """An answer with its frames in the order they were sent. Raises NotFoundError."""
    async with sessions() as session:
        if (row := await _find(session, answer_id)) is None:
            raise NotFoundError(f"The ledger has no answer '{answer_id}'.")
        statement = (
            select(LedgerEntry)
            .where(LedgerEntry.answer == answer_id, _IS_FRAME)
            .order_by(LedgerEntry.seq)
        )
        found = list(await session.scalars(statement))
        # The entry before a frame's may be another answer's.
        before = [entry.seq - 1 for entry in found]
        hashes = select(LedgerEntry.seq, LedgerEntry.hash).where(LedgerEntry.seq.in_(before))
        with everyone():  # or another owner's
            previous = {row.seq: row.hash for row in await session.execute(hashes)}
        return row, [_link(each, previous.get(each.seq - 1, GENESIS)) for each in found]


def left(row: LedgerAnswer) -> Left | None:
    """What left for an answer; None while it is written, or if it is older than this record."""
    if row.asked is None:
        return None
    given = None if row.given is None else [Part(PartKind(p["kind"]), p["text"]) for p in row.given]
    return Left(Asked(row.asked), row.words, given)


async def chain(sessions: Sessions) -> AsyncIterator[ChainEntry]:
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
                yield _link(each, previous)
            seq, previous = each.seq, each.hash


async def _batch(session: AsyncSession, behind: int) -> Sequence[LedgerEntry]:
    statement = (
        select(LedgerEntry)
        .where(LedgerEntry.seq > behind)
        .order_by(LedgerEntry.seq)
        .limit(_READ_BATCH)
    )
    return (await session.scalars(statement)).all()


async def verify(sessions: Sessions) -> Verified:
    """Check every entry and every row it covers. Raises `LedgerDamagedError` at the first fault."""
    with everyone():
        return await _verify(sessions)


async def _verify(sessions: Sessions) -> Verified:
    async with sessions() as session:
        # Read one snapshot, since answers may be written meanwhile.
        await session.execute(text("BEGIN"))
        rows = {row.id: row for row in await session.scalars(select(LedgerAnswer))}
        reads = {row.id: row for row in await session.scalars(select(LedgerRead))}
        begun: set[str] = set()
        ended: set[str] = set()
        head, count = GENESIS, 0
        while batch := await _batch(session, count):
            for each in batch:
                count += 1
                _check_link(each, count, head)
                head = each.hash
                if each.kind == READ:
                    _check_read(each, reads.pop(each.answer, None))
                    continue
                _check_answer(each, rows.get(each.answer))
                if each.kind in (BEGIN, END):
                    (begun if each.kind == BEGIN else ended).add(each.answer)
    if reads:
        raise LedgerDamagedError(f"The entry of {min(reads)} is missing.")
    if surplus := rows.keys() - begun:
        raise LedgerDamagedError(f"The first entry of answer {min(surplus)} is missing.")
    if surplus := {row.id for row in rows.values() if row.documents is not None} - ended:
        raise LedgerDamagedError(f"The last entry of answer {min(surplus)} is missing.")
    return Verified(len(rows), count, head)


def _check_link(found: LedgerEntry, seq: int, head: str) -> None:
    """Raises `LedgerDamagedError` unless an entry follows `head`."""
    if found.seq != seq:
        raise LedgerDamagedError(f"Entry {seq} is missing.")
    if _link(found, head).entry.hash(seq, head) != found.hash:
        raise LedgerDamagedError(f"Entry {seq} was changed, or one before it was removed.")


def _check_answer(entry: LedgerEntry, row: LedgerAnswer | None) -> None:
    """Raises `LedgerDamagedError` unless an entry agrees with its answer."""
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
    """Raises `LedgerDamagedError` unless an entry agrees with its read."""
    if row is None:
        raise LedgerDamagedError(f"{entry.answer} is missing (entry {entry.seq}).")
    read = ProgramRead(row.reader, row.tool, row.bytes, answer=row.answer, id=row.id, at=row.at)
    erased = row.passages is None
    if digest_of(read.stated(row.digest)) != entry.digest or not (
        erased or digest_of(row.passages) == row.digest
    ):
        raise LedgerDamagedError(f"The record of {row.id} was changed.")


def _end(row: LedgerAnswer) -> dict[str, object]:
    counts: dict[str, object] = {
        "documents": row.documents,
        "drafts": row.drafts,
        "answer": row.answer,
    }
    if row.asked is None:  # written before words were kept
        return counts
    said = {**counts, "asked": row.asked, "digest": row.digest}
    if row.given_digest is not None:  # else written before it was kept
        said["given_digest"] = row.given_digest
    return said if row.epsilon is None else {**said, "epsilon": row.epsilon}


def _link(row: LedgerEntry, previous: str) -> ChainEntry:
    entry = Entry(row.answer, row.at, row.kind, row.bytes, row.digest)
    return ChainEntry(row.seq, entry, previous, row.hash)


async def _find(session: AsyncSession, answer_id: str) -> LedgerAnswer | None:
    found: LedgerAnswer | None = await session.scalar(
        select(LedgerAnswer).where(LedgerAnswer.id == answer_id)
    )
    return found
