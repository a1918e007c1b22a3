"""The ledger: every frame of every answer that left the device, in a chain of hashes.

An entry holds a frame's kind, size and SHA-256, never its content, so that nothing of a deleted
document stays behind here. Its hash covers the entry and the hash before it: an entry that is
changed, dropped or put in later breaks the chain, which `verify` finds. Each answer begins with an
entry `begin` and ends with an entry `end`, whose digests cover what `LedgerAnswer` says of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace

import orjson
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.leakage import Outbound, Quoted, Stretch, quoted
from app.storage.tables import LedgerAnswer, LedgerEntry
from dragon.link.registry import Frame, Message, name_of

log = logging.getLogger(__name__)

GENESIS = "0" * 64
BEGIN, END = "begin", "end"
_WRITE_S = 0.25


@dataclass(frozen=True)
class Entry:
    """A link of the chain, before it has a place in it; `at` in Unix seconds, `digest` hex."""

    answer: str
    at: float
    kind: str
    bytes: int
    digest: str

    def hash(self, seq: int, previous: str) -> str:
        """The hash of this entry at its place, hex."""
        return digest_of([seq, previous, *vars(self).values()])


def digest_of(value: object) -> str:
    """SHA-256 of a value's JSON, hex."""
    return hashlib.sha256(orjson.dumps(value)).hexdigest()


class Ledger:
    """Takes frames as the link queues them and writes them down shortly after.

    A frame counts as sent once it is queued: if the connection breaks before it is written, the
    ledger says too much rather than too little. A device that is killed loses the entries of its
    last quarter of a second.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self.sessions = sessions
        self._accounts: dict[int, Account] = {}
        self._pending: list[tuple[Entry, dict[str, object]]] = []
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writes: set[asyncio.Future[None]] = set()
        self._closing = False
        self._seq, self._hash = 0, GENESIS

    # What an answer and the link tell it.

    def begin(self, answer: str, *, private: bool) -> Account:
        """An answer begins; a private one sends nothing."""
        row: dict[str, object] = {"id": answer, "started_at": time.time(), "private": private}
        self._append(answer, BEGIN, 0, digest_of(row), row)
        return Account(self, answer)

    def sent(self, stream: int, message: Message, frame: Frame) -> None:
        """The link sends a message; those of no answer (greetings, pings) are not recorded."""
        if (account := self._accounts.get(stream)) is None:
            return
        account.outbound.note(message)
        data = frame.encode() if isinstance(frame, str) else frame
        digest = hashlib.sha256(data).hexdigest()
        self._append(account.answer, name_of(message), len(data), digest)

    def assign(self, generation: int, account: Account) -> None:
        """Frames of this generation of the link are the answer's from now on."""
        self._accounts[generation] = account

    def end(self, account: Account, quoted: Quoted) -> None:
        """An answer is over, and so much of one's documents left with it."""
        row = asdict(quoted)
        self._append(account.answer, END, 0, digest_of(row), row)
        # Not every generation ends with a close: a link may break.
        for generation in account.generations:
            self._accounts.pop(generation, None)

    # Writing.

    async def start(self) -> None:
        """Find the end of the chain."""
        newest = select(LedgerEntry).order_by(LedgerEntry.seq.desc()).limit(1)
        async with self.sessions() as session:
            if (last := await session.scalar(newest)) is not None:
                self._seq, self._hash = last.seq, last.hash
        self._task = asyncio.create_task(self._run(), name="ledger")

    async def close(self) -> None:
        """Write what is left."""
        self._closing = True
        self._changed.set()
        await self._task

    async def written(self) -> None:
        """Return once everything taken so far is on disk."""
        # Whoever waits may go away; half a transaction must not stay behind.
        write = asyncio.ensure_future(self._write())
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        await asyncio.shield(write)

    async def _write(self) -> None:
        async with self._writing:
            taken = len(self._pending)
            if not taken:
                return
            seq, previous = self._seq, self._hash
            async with self.sessions.begin() as session:
                entries = []
                for entry, row in self._pending[:taken]:
                    seq += 1
                    previous = entry.hash(seq, previous)
                    entries.append({"seq": seq, "hash": previous, **vars(entry)})
                    if entry.kind == BEGIN:
                        await session.execute(insert(LedgerAnswer).values(row))
                    elif entry.kind == END:
                        of_answer = LedgerAnswer.id == entry.answer
                        await session.execute(update(LedgerAnswer).where(of_answer).values(row))
                await session.execute(insert(LedgerEntry), entries)
            self._seq, self._hash = seq, previous
            del self._pending[:taken]

    def _append(
        self, answer: str, kind: str, size: int, digest: str, row: dict[str, object] | None = None
    ) -> None:
        self._pending.append((Entry(answer, time.time(), kind, size, digest), row or {}))
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_WRITE_S)  # many frames, one transaction
            self._changed.clear()
            try:
                await self.written()
            except Exception:
                log.exception("the ledger could not be written; it is tried again")
                self._changed.set()
            if self._closing:
                return


@dataclass
class Account:
    """One answer's part of the ledger while it is being written."""

    ledger: Ledger
    answer: str
    outbound: Outbound = field(default_factory=Outbound)
    generations: list[int] = field(default_factory=list)
    _stretches: list[Stretch] = field(default_factory=list)

    def assign(self, generation: int) -> None:
        """Frames of this generation of the link are this answer's from now on."""
        # What goes on from a text that is written tells all of it.
        self._stretches = [replace(s, joint=len(s.committed)) for s in self._stretches]
        self.generations.append(generation)
        self.ledger.assign(generation, self)

    def wrote(
        self, documents: Iterable[Sequence[int]], committed: Sequence[int], joint: int
    ) -> None:
        """What was written, and the tokens of one's own documents that it was written from.

        The cloud took part in the first `joint` of the `committed` tokens. What is sent from here
        on is for another stretch.
        """
        stretch = Stretch(self.outbound, list(documents), tuple(committed), joint)
        self._stretches.append(stretch)
        self.outbound = Outbound()

    def end(self) -> None:
        """The answer is over, and nothing more is sent for it."""
        last = Stretch(self.outbound, (), (), 0)
        self.ledger.end(self, quoted([*self._stretches, last]))
