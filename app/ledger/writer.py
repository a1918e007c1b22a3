"""The ledger: a hash chain over every frame that left the device for an answer.

An entry holds a frame's kind, size and SHA-256, never its content, so that nothing of a deleted
document remains here. Its hash covers the entry and the previous hash: changing, dropping or
inserting an entry breaks the chain, which `verify` detects. Each answer begins with an entry
`begin` and ends with an entry `end`, whose digests cover its row in `LedgerAnswer`; of the words
that left, only their digest is covered, so that they can be erased with the document they come
from. What a program reads is an entry `read`, whose digest covers its row in `LedgerRead` in the
same way.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

import orjson
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.disk import cause_of
from app.ledger.leakage import Outbound, Part, left, quoted
from app.ledger.spending import Spending
from app.owners import acting, everyone
from app.storage.purge import blank_words_of_deleted
from app.storage.tables import LedgerAnswer, LedgerEntry, LedgerRead
from dragon.link.registry import Frame, Message, name_of
from dragon.sampling.privacy import Budget

log = logging.getLogger(__name__)

Decode = Callable[[Sequence[int]], str]

GENESIS = "0" * 64
BEGIN, END, READ = "begin", "end", "read"
_WRITE_S = 0.25
_RETRY_S = 1.0
_PATIENCE_S = 5.0


def digest_of(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()


@dataclass(frozen=True)
class Entry:
    """An entry before it is appended to the chain; `at` in Unix seconds, `digest` hex.

    One of the `documents` that its `row` is about may be deleted before it is written.
    """

    owner: str
    answer: str
    kind: str
    bytes: int
    digest: str
    row: dict[str, object]
    documents: frozenset[str]
    at: float = field(default_factory=time.time)


def covered(entry: Entry | LedgerEntry) -> dict[str, object]:
    """The fields of an entry that its hash covers."""
    return {name: getattr(entry, name) for name in ("answer", "at", "kind", "bytes", "digest")}


def hash_of(entry: Entry | LedgerEntry, seq: int, previous: str) -> str:
    return digest_of([seq, previous, *covered(entry).values()])


@dataclass(frozen=True)
class Passage:
    """A part of a document's text, by character offsets."""

    document: str
    start: int
    end: int


@dataclass(frozen=True)
class ProgramRead:
    """Something given to a program: `reader` is the program's own name, `bytes` its total size.

    `answer` is the ledger id of the answer it was given, if it was one.
    """

    reader: str
    tool: str
    bytes: int
    passages: Sequence[Passage] = ()
    answer: str | None = None
    id: str = field(default_factory=lambda: f"read-{uuid.uuid4().hex}")
    at: float = field(default_factory=time.time)


def stated(read: ProgramRead | LedgerRead, digest: str) -> dict[str, object]:
    """The fields of a read that the chain covers; `digest` is that of its passages."""
    names = ("id", "at", "reader", "tool", "answer", "bytes")
    return {name: getattr(read, name) for name in names} | {"digest": digest}


class Ledger:
    """Records frames as the link queues them and writes them to the database shortly after.

    A frame counts as sent once it is queued: if the connection breaks first, the ledger overstates
    rather than understates. A device that is killed loses the last quarter of a second of entries.
    While the disk fails, entries wait in memory and, after a few seconds, `writable` is false:
    nothing new may leave then.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self.sessions = sessions
        self.spending = Spending(sessions)
        self._answers: dict[str, Account] = {}
        self._streams: dict[int, Account] = {}
        self._pending: list[Entry] = []
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writes: set[asyncio.Future[None]] = set()
        self._closing = False
        self._failing_since: float | None = None
        self._seq, self._hash = 0, GENESIS

    @property
    def writable(self) -> bool:
        """Whether what leaves now can be recorded."""
        since = self._failing_since
        return since is None or time.monotonic() - since < _PATIENCE_S

    def writes_for(self, owner: str) -> bool:
        """Whether an answer of an owner is in progress."""
        return any(account.owner == owner for account in self._answers.values())

    # Called by answers, and by the link.

    def begin(self, answer: str, decode: Decode, *, private: bool) -> Account:
        """Open the account of an answer; a private one sends nothing."""
        row: dict[str, object] = {"id": answer, "started_at": time.time(), "private": private}
        self._answers[answer] = account = Account(self, answer, decode, acting())
        self._append(account.owner, answer, BEGIN, digest_of(row), row=row)
        return account

    def opened(self, stream: int, answer: str) -> None:
        """Frames of this stream id belong to an answer from now on."""
        if (account := self._answers.get(answer)) is not None:
            account.streams.append(stream)
            self._streams[stream] = account

    def sent(self, stream: int, message: Message, frame: Frame) -> None:
        """Record a message sent by the link, unless it belongs to no answer (handshake, pings)."""
        if (account := self._streams.get(stream)) is None:
            return
        account.outbound.note(message)
        account.frames += 1
        data = frame.encode() if isinstance(frame, str) else frame
        account.bytes += len(data)
        digest = hashlib.sha256(data).hexdigest()
        self._append(account.owner, account.answer, name_of(message), digest, len(data))

    def end(self, account: Account) -> None:
        """Close the account of an answer, with what it revealed."""
        sent = [*account.written, account.outbound]
        told = left(sent, account.decode, account.parts)
        given = [asdict(part) for part in told.given or ()]
        row = {**asdict(quoted(sent)), "asked": told.asked.value, "digest": digest_of(told.words)}
        row["given_digest"] = digest_of(given)
        if account.budget is not None:
            row["epsilon"] = account.budget.report()
        erasable = {
            "words": told.words,
            "given": given,
            "sources": sorted(account.sources),
            "passages": list(account.passages) or None,
            **dict.fromkeys(account.forgotten),
        }
        digest = digest_of(row)
        self._append(
            account.owner,
            account.answer,
            END,
            digest,
            row=row | erasable,
            documents=frozenset(account.sources),
        )
        self._answers.pop(account.answer, None)
        # Not every stream ends with a close: a link may break.
        for stream in account.streams:
            self._streams.pop(stream, None)

    async def forget_given(self, answers: Container[str]) -> None:
        """Keep no words that the cloud was asked with for these, before their chat is deleted."""
        for account in self._answers.values():
            if account.answer in answers:
                account.forgotten.add("given")
        await self.written()

    async def forget_words(self) -> None:
        """Keep no words of the current owner's answers in progress, before a redaction."""
        for account in self._answers.values():
            if account.owner == acting():
                account.forgotten |= {"words", "given"}
        await self.written()

    async def read(self, read: ProgramRead) -> None:
        """Record what a program is about to be given; it is on disk on return."""
        passages = [asdict(passage) for passage in read.passages]
        row = stated(read, digest_of(passages))
        documents = frozenset(passage.document for passage in read.passages)
        self._append(
            acting(),
            read.id,
            READ,
            digest_of(row),
            read.bytes,
            row=row | {"passages": passages},
            documents=documents,
        )
        await self.written()

    # Writing.

    async def start(self) -> None:
        """Load the end of the chain and start the writer."""
        newest = select(LedgerEntry).order_by(LedgerEntry.seq.desc()).limit(1)
        with everyone():
            async with self.sessions() as session:
                if (last := await session.scalar(newest)) is not None:
                    self._seq, self._hash = last.seq, last.hash
        self._task = asyncio.create_task(self._run(), name="ledger")

    async def close(self) -> None:
        """Write the remaining entries and stop."""
        self._closing = True
        self._changed.set()
        await self._task
        await self.spending.settled()

    async def written(self) -> None:
        """Return once everything recorded so far is on disk."""
        # The caller may be cancelled; the transaction must not be interrupted.
        with everyone():  # entries of all owners are written together
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
                documents: set[str] = set()
                for entry in self._pending[:taken]:
                    row = entry.row | {"owner": entry.owner}
                    documents.update(entry.documents)
                    seq += 1
                    previous = hash_of(entry, seq, previous)
                    of_chain = {"owner": entry.owner, "seq": seq, "hash": previous}
                    entries.append(of_chain | covered(entry))
                    if entry.kind == BEGIN:
                        await session.execute(insert(LedgerAnswer).values(row))
                    elif entry.kind == READ:
                        await session.execute(insert(LedgerRead).values(row))
                    elif entry.kind == END:
                        of_answer = LedgerAnswer.id == entry.answer
                        await session.execute(update(LedgerAnswer).where(of_answer).values(row))
                await session.execute(insert(LedgerEntry), entries)
                await blank_words_of_deleted(session, documents)
            self._seq, self._hash = seq, previous
            del self._pending[:taken]

    def _append(
        self,
        owner: str,
        answer: str,
        kind: str,
        digest: str,
        size: int = 0,
        row: dict[str, object] | None = None,
        documents: frozenset[str] = frozenset(),
    ) -> None:
        self._pending.append(Entry(owner, answer, kind, size, digest, row or {}, documents))
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            # Several frames go into one transaction; a failing disk is retried less often.
            await asyncio.sleep(_WRITE_S if self._failing_since is None else _RETRY_S)
            self._changed.clear()
            try:
                await self.written()
            except Exception as error:
                if self._failing_since is None:
                    self._failing_since = time.monotonic()
                    log.warning("the ledger cannot be written: %s", cause_of(error))
                self._changed.set()
            else:
                if self._failing_since is not None:
                    log.info("the ledger can be written again")
                self._failing_since = None
            if self._closing:
                if self._pending:
                    log.error("%d entries of the ledger are lost", len(self._pending))
                return


@dataclass
class Account:
    """One answer's account in the ledger: a context that ends with the answer."""

    ledger: Ledger
    answer: str
    decode: Decode
    owner: str
    sources: set[str] = field(default_factory=set)
    parts: list[Part] = field(default_factory=list)
    outbound: Outbound = field(default_factory=Outbound)
    written: list[Outbound] = field(default_factory=list)  # before the current one
    streams: list[int] = field(default_factory=list)
    budget: Budget | None = None
    passages: Sequence[str] = ()  # that the budget is spent on, by digest
    frames: int = 0
    bytes: int = 0
    forgotten: set[str] = field(default_factory=set)  # columns that are to stay empty

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the account: nothing more is sent for the answer."""
        self.ledger.end(self)

    @property
    def sent(self) -> dict[str, float]:
        """Statistics of what was sent for it so far."""
        return {"sent_frames": float(self.frames), "sent_bytes": float(self.bytes)}

    def given(self, parts: Iterable[Part]) -> None:
        """Record the user's words that the cloud is asked with, if it is asked."""
        self.parts += parts

    def bounded(self, budget: Budget, passages: Sequence[str]) -> None:
        """The answer has a privacy budget, reserved for these passages by their digests."""
        self.budget, self.passages = budget, passages

    def settle(self) -> None:
        """Refund what is left of the answer's budget, once the answer is over."""
        if self.budget is not None:
            self.ledger.spending.settle(self.passages, self.budget)

    def wrote(
        self, documents: Iterable[tuple[str, Sequence[int]]], committed: Sequence[int], told: int
    ) -> None:
        """The text is written; these of the user's `documents` were in its prompt.

        The cloud knows the first `told` of the `committed` tokens. Frames sent from now on only
        serve computations on the finished text.
        """
        found = list(documents)
        self.sources.update(document for document, _ in found)
        self.outbound.documents = [tokens for _, tokens in found]
        self.outbound.committed = tuple(committed)
        self.outbound.told = max(self.outbound.told, told)
        self.written.append(self.outbound)
        self.outbound = Outbound()
