"""The cloud's view of a conversation: never what it was not given before.

Of earlier turns it sees the questions it was asked, and the parts of answers it took part in. What
the device wrote alone appears as a single mark, and so does a turn in which the cloud had no part,
answered or not. Answers are recognised by the SHA-256 of question and text, so nothing of their
text is stored here, and a client that sends the conversation itself gets the same view.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.leakage import Kind, Part
from app.owners import acting
from app.storage.tables import KnownAnswer
from dragon.inference.tokenizer import Message

log = logging.getLogger(__name__)

MARK = "..."
_RETRIES_S = (0.1, 1.0, 5.0)  # waits between attempts while the database is locked


@dataclass(frozen=True)
class Known:
    """What the cloud knows of an answer: `ranges` of its characters, and whether it was `asked`."""

    asked: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    def of(self, text: str) -> str:
        """The answer as the cloud knows it, with its trailing white space."""
        text = text.lstrip()
        pieces, end = [], 0
        for start, stop in (*self.ranges, (len(text), len(text))):
            if text[end:start].strip():
                pieces.append(MARK)
            pieces.append(text[start:stop].strip())
            end = stop
        return " ".join(piece for piece in pieces if piece) + text[len(text.rstrip()) :]


NOTHING = Known()


@dataclass(frozen=True)
class View:
    """A conversation as the cloud sees it, and what it holds of the user's words, by kind.

    What the cloud knows of answers has been in the ledger since it was sent, and may come from a
    deleted document: it has no text here.
    """

    messages: tuple[Message, ...]
    parts: tuple[Part, ...]


_BLANK = Message("user", MARK), Message("assistant", MARK)  # turns it knows nothing of, as one


@dataclass
class CloudView:
    """Remembers what the cloud knows of each answer written here."""

    sessions: async_sessionmaker[AsyncSession]
    _recent: dict[tuple[str, str], Known] = field(default_factory=dict)
    _writes: set[asyncio.Task[None]] = field(default_factory=set)

    def wrote(self, question: str, text: str, known: Known) -> None:
        """Remember an answer; it replaces one with the same question and text."""
        shift = len(text) - len(text.lstrip())
        ranges = [(max(0, start - shift), end - shift) for start, end in known.ranges]
        known = replace(known, ranges=tuple((start, end) for start, end in ranges if start < end))
        pair, alone = _digest(question, text), _digest(text)
        self._recent[acting(), pair] = known
        # By its text alone an answer is found if a client has changed the question: it then counts
        # as the answer to whichever question the cloud knows least about.
        self._recent[acting(), alone] = least = (
            known if self._recent.get((acting(), alone), known) == known else NOTHING
        )
        task = asyncio.create_task(self._write(pair, known, alone, least))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def known(self, question: str, text: str) -> Known | None:
        """What the cloud knows of an answer; None for a text that was not written here."""
        digests = _digest(question, text), _digest(text)
        for digest in digests:
            if (recent := self._recent.get((acting(), digest))) is not None:
                return recent
            async with self.sessions() as session:
                row = await session.scalar(select(KnownAnswer).where(KnownAnswer.digest == digest))
            if row is not None:
                return _read(row)
        return None

    async def of(self, messages: Sequence[Message], *, trusted: bool) -> View:
        """The conversation for the cloud; the last question is the one that it is asked now.

        If `trusted`, a turn that was not written here, or not answered, is shown with its question.
        """
        shown: list[Message] = []
        parts: list[Part] = []
        asked_now = max((n for n, each in enumerate(messages) if each.role == "user"), default=-1)
        question = ""
        for number, message in enumerate(messages):
            if message.role == "user":
                question = message.content
            if message.calls or message.role == "tool":
                shown.append(message if trusted else _blank(message))
                parts.append(Part(Kind.TOOLS, _told(shown[-1])))
                continue
            if message.role == "assistant":
                found = await self.known(question, message.content)
                known = found or _whole(message, trusted=trusted)
                # An answer to be continued keeps its end: the next token depends on it.
                answer = message.content if message is messages[-1] else message.content.strip()
                message = Message("assistant", known.of(answer))
                parts.append(Part(Kind.ANSWERS, None if found else message.content))
            elif message.role == "user":
                following = _answer(messages[number:])
                if following is not None:
                    found = await self.known(question, following.content)
                    asked = (found or _whole(following, trusted=trusted)).asked
                else:
                    asked = trusted or number == asked_now
                message = message if asked else _BLANK[0]
                kind = Kind.QUESTION if number == asked_now else Kind.EARLIER
                parts.append(Part(kind, message.content))
            else:
                parts.append(Part(Kind.INSTRUCTIONS, message.content))
            shown.append(message)
            if shown[-4:] == [*_BLANK, *_BLANK]:
                del shown[-2:]
            elif shown[-2:] == [_BLANK[0]] * 2:
                del shown[-1]
        said = [part for part in parts if part.text is None or part.text.strip() not in ("", MARK)]
        return View(tuple(shown), tuple(dict.fromkeys(said)))

    async def close(self) -> None:
        """Return once everything is on disk."""
        await asyncio.gather(*self._writes)

    async def _write(self, pair: str, known: Known, alone: str, least: Known) -> None:
        for wait_s in (*_RETRIES_S, None):
            try:
                await self._stored(pair, known, alone, least)
            except Exception as error:
                if wait_s is None or not isinstance(error, OperationalError):
                    log.exception("what the cloud knows of an answer could not be stored")
                    return
                await asyncio.sleep(wait_s)  # the database is locked
            else:
                self._recent.pop((acting(), pair), None)
                self._recent.pop((acting(), alone), None)
                return

    async def _stored(self, pair: str, known: Known, alone: str, least: Known) -> None:
        async with self.sessions.begin() as session:
            for digest, each, again in ((pair, known, known), (alone, least, NOTHING)):
                row = await session.scalar(select(KnownAnswer).where(KnownAnswer.digest == digest))
                values = _written(each if row is None or _read(row) == each else again)
                added = insert(KnownAnswer).values(digest=digest, **values)
                await session.execute(added.on_conflict_do_update(["owner", "digest"], set_=values))


def _read(row: KnownAnswer) -> Known:
    return Known(row.asked, tuple(map(tuple, row.ranges)))


def _written(known: Known) -> dict[str, object]:
    return {"asked": known.asked, "ranges": [list(each) for each in known.ranges]}


def _whole(answer: Message, *, trusted: bool) -> Known:
    """What the cloud knows of an answer that was not written here."""
    return Known(True, ((0, len(answer.content)),)) if trusted else NOTHING


def _told(message: Message) -> str:
    """A call, or a tool's result, as text."""
    return " ".join(
        [message.content, *(f"{call.name}({call.arguments})" for call in message.calls)]
    )


def _answer(messages: Sequence[Message]) -> Message | None:
    """The answer to the question that the messages begin with, if there is one."""
    for message in messages[1:]:
        if message.role == "user":
            return None
        if message.role == "assistant" and not message.calls:
            return message
    return None


def _blank(message: Message) -> Message:
    """A call, or a tool's result, for a cloud that is told only the tools' names."""
    calls = tuple(replace(call, arguments="{}") for call in message.calls)
    return replace(message, content=MARK if message.content else "", calls=calls)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(text.strip() for text in texts).encode()).hexdigest()
