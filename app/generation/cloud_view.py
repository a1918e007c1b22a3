"""The cloud's view of a conversation: never what it was not given before.

Of earlier turns it sees the questions it was asked, and of their answers what it took part in. What
the device wrote alone stands there as one mark, and so does a turn that it had no part in. Answers
are recognised by the SHA-256 of their text, so that nothing of them is kept here, and a client that
sends the conversation itself gets the same view.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.owners import acting
from app.storage.tables import KnownAnswer
from dragon.inference.tokenizer import Message

log = logging.getLogger(__name__)

MARK = "..."


@dataclass(frozen=True)
class Known:
    """What the cloud knows of an answer: ranges of its characters; `asked`: its question, too."""

    asked: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    def of(self, text: str) -> str:
        """The answer as the cloud knows it, with the space that it ends with."""
        text = text.lstrip()
        pieces, end = [], 0
        for start, stop in (*self.ranges, (len(text), len(text))):
            if text[end:start].strip():
                pieces.append(MARK)
            pieces.append(text[start:stop].strip())
            end = stop
        return " ".join(piece for piece in pieces if piece) + text[len(text.rstrip()) :]


NOTHING = Known()
_BLANK = Message("user", MARK), Message("assistant", MARK)  # turns it knows nothing of, as one


@dataclass
class CloudView:
    """Remembers what the cloud knows of each answer written here."""

    sessions: async_sessionmaker[AsyncSession]
    _recent: dict[tuple[str, str], Known] = field(default_factory=dict)
    _writes: set[asyncio.Task[None]] = field(default_factory=set)

    def wrote(self, text: str, known: Known) -> None:
        """Remember an answer; one of the same text is forgotten."""
        digest = _digest(text)
        shift = len(text) - len(text.lstrip())
        ranges = [(max(0, start - shift), end - shift) for start, end in known.ranges]
        self._recent[acting(), digest] = known = replace(
            known, ranges=tuple((start, end) for start, end in ranges if start < end)
        )
        task = asyncio.create_task(self._write(digest, known))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def known(self, text: str) -> Known | None:
        """What the cloud knows of an answer; None of a text that was not written here."""
        digest = _digest(text)
        if (recent := self._recent.get((acting(), digest))) is not None:
            return recent
        async with self.sessions() as session:
            row = await session.scalar(select(KnownAnswer).where(KnownAnswer.digest == digest))
        return None if row is None else Known(row.asked, tuple(map(tuple, row.ranges)))

    async def of(self, messages: Sequence[Message], *, trusted: bool) -> list[Message]:
        """The messages for the cloud; the last one is the question it is asked now.

        An answer that was not written here is shown with its question if it is `trusted`.
        """
        shown: list[Message] = []
        for number, message in enumerate(messages):
            following = _answer(messages[number:])
            if message.calls or message.role == "tool":
                shown.append(message if trusted else _blank(message))
                continue
            if message.role == "assistant":
                known = await self._known_or(message, trusted=trusted)
                # One that is to be continued keeps its end: the next word depends on it.
                answer = message.content if message is messages[-1] else message.content.strip()
                message = Message("assistant", known.of(answer))
            elif message.role == "user" and following is not None:
                known = await self._known_or(following, trusted=trusted)
                message = message if known.asked else _BLANK[0]
            shown.append(message)
            if shown[-4:] == [*_BLANK, *_BLANK]:
                del shown[-2:]
        return shown

    async def close(self) -> None:
        """Return once everything is on disk."""
        await asyncio.gather(*self._writes)

    async def _known_or(self, answer: Message, *, trusted: bool) -> Known:
        unknown = Known(True, ((0, len(answer.content)),)) if trusted else NOTHING
        return await self.known(answer.content) or unknown

    async def _write(self, digest: str, known: Known) -> None:
        values = {"asked": known.asked, "ranges": [list(each) for each in known.ranges]}
        row = insert(KnownAnswer).values(digest=digest, **values)
        try:
            async with self.sessions.begin() as session:
                await session.execute(row.on_conflict_do_update(["owner", "digest"], set_=values))
        except Exception:
            log.exception("what the cloud knows of an answer was not stored")
        else:
            self._recent.pop((acting(), digest), None)


def _answer(messages: Sequence[Message]) -> Message | None:
    """What answers the question that the messages begin with, if it has been answered."""
    for message in messages[1:]:
        if message.role == "user":
            return None
        if message.role == "assistant" and not message.calls:
            return message
    return None


def _blank(message: Message) -> Message:
    """A call, or what a tool returned, for a cloud that is told the tools' names alone."""
    calls = tuple(replace(call, arguments="{}") for call in message.calls)
    return replace(message, content=MARK if message.content else "", calls=calls)


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()
