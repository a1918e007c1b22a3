"""The cloud's view of a conversation: only what it was given before.

Of earlier turns it sees the questions that it was asked, and the parts of answers that it took part
in. A single mark stands for text that the device wrote alone, and for turns in which the cloud had
no part, answered or not. Answers are recognised by the SHA-256 of question and text, so that none
of their text is stored here, and a client that sends the conversation itself gets the same view.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.leakage import Part, PartKind
from app.owners import acting
from app.storage.tables import KnownAnswer
from dragon.inference.reading import END
from dragon.inference.tokenizer import Message

log = logging.getLogger(__name__)

MARK = "..."
_RETRIES_S = (0.1, 1.0, 5.0)  # waits between attempts while the database is locked
_AT_ONCE = 10_000  # digests in a query: SQLite takes 32,766


@dataclass(frozen=True)
class Known:
    """What the cloud knows of an answer: `ranges` of its characters, and whether it was `asked`.

    Offset 0 is the end of the answer's reasoning, which clients do not send back.
    """

    asked: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    def of(self, text: str) -> str:
        """The answer as the cloud knows it, with its trailing white space."""
        begin, pieces, end = _begin(text), [], 0
        ranges = [(max(0, begin + start), max(0, begin + stop)) for start, stop in self.ranges]
        for start, stop in (*ranges, (len(text), len(text))):
            if text[end:start].strip():
                pieces.append(MARK)
            pieces.append(text[start:stop].strip())
            end = stop
        return " ".join(piece for piece in pieces if piece) + text[len(text.rstrip()) :]


NOTHING = Known()


class _Key(Enum):
    """How answers and questions are recognised, since clients may change what they send back.

    A `PAIR` is an answer with its question, `TEXT` an answer alone, `QUESTION` a question alone. If
    the cloud knows different parts of answers with the same `TEXT`, it counts as knowing none.
    """

    PAIR = auto()
    TEXT = auto()
    QUESTION = auto()

    def digest(self, question: str, answer: str) -> str:
        """The SHA-256 of the texts that this key compares."""
        question, answer = question.strip(), answer[_begin(answer) :].strip()
        told = {
            _Key.PAIR: (question, answer),
            _Key.TEXT: (answer,),
            _Key.QUESTION: (question, "", ""),
        }
        return hashlib.sha256("\0".join(told[self]).encode()).hexdigest()

    def after(self, before: Known, new: Known) -> Known:
        """What the cloud knows afterwards, from `before` and `new`."""
        match self:
            case _Key.PAIR:
                return new
            case _Key.TEXT:
                return new if before == new else NOTHING
            case _Key.QUESTION:
                return Known(before.asked or new.asked)


@dataclass(frozen=True)
class View:
    """A conversation as the cloud sees it, and the user's words in it, by kind.

    Known answers have no text in `parts`: it has been in the ledger since it was sent, and may come
    from a document that was deleted.
    """

    messages: tuple[Message, ...]
    parts: tuple[Part, ...]


_BLANK = Message("user", MARK), Message("assistant", MARK)  # any turns it knows nothing of


@dataclass(frozen=True)
class _Recalled:
    """What the cloud knows of the questions and answers of a conversation, by digest."""

    found: Mapping[str, Known]

    def _of(self, key: _Key, question: str, answer: str) -> Known | None:
        return self.found.get(key.digest(question, answer))

    def answer(self, question: str, answer: str) -> Known | None:
        """What the cloud knows of an answer; None for a text that was not written here.

        It is nothing for an answer that a client has changed, to a question it was not asked.
        """
        if (known := self._of(_Key.PAIR, question, answer)) is not None:
            return known
        asked = self._of(_Key.QUESTION, question, answer)
        if asked is not None and not asked.asked:
            return NOTHING
        return self._of(_Key.TEXT, question, answer)

    def asked(self, question: str, answer: str | None, *, trusted: bool) -> bool:
        """Whether the cloud may know the question of an earlier turn."""
        if answer is not None and (known := self._of(_Key.PAIR, question, answer)) is not None:
            return known.asked
        if (known := self._of(_Key.QUESTION, question, "")) is not None:
            return known.asked
        # A client has changed the question, if not the answer.
        known = None if answer is None else self._of(_Key.TEXT, question, answer)
        return trusted and (known is None or known.asked)


@dataclass
class CloudView:
    """Remembers what the cloud knows of each answer written here."""

    sessions: async_sessionmaker[AsyncSession]
    _recent: dict[tuple[str, str], Known] = field(default_factory=dict)
    _writes: set[asyncio.Task[None]] = field(default_factory=set)

    def wrote(self, question: str, text: str, known: Known) -> None:
        """Remember an answer; it replaces one with the same question and text."""
        begin = _begin(text)
        ranges = tuple((start - begin, end - begin) for start, end in known.ranges)
        known = Known(known.asked, ranges)
        new = {}
        for key in _Key:
            digest = key.digest(question, text)
            before = self._recent.get((acting(), digest), known)
            new[digest] = key, key.after(before, known)
            self._recent[acting(), digest] = new[digest][1]
        task = asyncio.create_task(self._write(new))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def known(self, question: str, text: str) -> Known | None:
        """What the cloud knows of an answer; None for a text that was not written here."""
        return (await self._recall([(question, text)])).answer(question, text)

    async def of(self, messages: Sequence[Message], *, trusted: bool) -> View:
        """The conversation for the cloud, whose last question is the one asked now.

        If `trusted`, a turn that was not written here, or not answered, is shown with its question.
        """
        recalled = await self._recall(_turns(messages))
        shown: list[Message] = []
        parts: list[Part] = []
        asked_now = max((n for n, each in enumerate(messages) if each.role == "user"), default=-1)
        question, asked = "", trusted
        for number, message in enumerate(messages):
            if message.role == "user":
                question = message.content
                asked = number == asked_now or recalled.asked(
                    question, _answer(messages[number:]), trusted=trusted
                )
                message = message if asked else _BLANK[0]
                kind = PartKind.QUESTION if number == asked_now else PartKind.EARLIER
                parts.append(Part(kind, _told(message)))
            elif message.calls or message.role == "tool":
                message = message if trusted and asked else _blank(message)
                parts.append(Part(PartKind.TOOLS, _told(message)))
            elif message.role == "assistant":
                known = recalled.answer(question, message.content)
                # An answer to be continued keeps its end: the next token depends on it.
                answer = message.content if message is messages[-1] else message.content.strip()
                if known or not trusted:
                    answer = (known or NOTHING).of(answer)
                parts.append(Part(PartKind.ANSWERS, None if known else answer))
                message = Message("assistant", answer)
            else:
                parts.append(Part(PartKind.INSTRUCTIONS, _told(message)))
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

    async def _recall(self, turns: Iterable[tuple[str, str]]) -> _Recalled:
        """What the cloud knows of questions and their answers, read together."""
        keys = {key.digest(*turn): key for turn in turns for key in _Key}
        recent = {each: self._recent.get((acting(), each)) for each in keys}
        found: dict[str, Known] = {}
        async with self.sessions() as session:
            for start in range(0, len(keys), _AT_ONCE):
                found |= await _stored(session, [*keys][start : start + _AT_ONCE])
        for digest, new in recent.items():
            if new is not None:
                found[digest] = keys[digest].after(found.get(digest, new), new)
        return _Recalled(found)

    async def _write(self, new: Mapping[str, tuple[_Key, Known]]) -> None:
        for wait_s in (*_RETRIES_S, None):
            try:
                await self._store(new)
            except Exception as error:
                if wait_s is None or not isinstance(error, OperationalError):
                    log.exception("what the cloud knows of an answer could not be stored")
                    return
                await asyncio.sleep(wait_s)  # the database is locked
            else:
                for digest, (_, known) in new.items():
                    if self._recent.get((acting(), digest)) is known:
                        del self._recent[acting(), digest]
                return

    async def _store(self, new: Mapping[str, tuple[_Key, Known]]) -> None:
        async with self.sessions.begin() as session:
            stored = await _stored(session, [*new])
            for digest, (key, each) in new.items():
                known = key.after(stored.get(digest, each), each)
                values = {"asked": known.asked, "ranges": [list(part) for part in known.ranges]}
                added = insert(KnownAnswer).values(digest=digest, **values)
                await session.execute(added.on_conflict_do_update(["owner", "digest"], set_=values))


async def _stored(session: AsyncSession, digests: Sequence[str]) -> dict[str, Known]:
    rows = await session.scalars(select(KnownAnswer).where(KnownAnswer.digest.in_(digests)))
    return {row.digest: Known(row.asked, tuple(map(tuple, row.ranges))) for row in rows}


def _begin(text: str) -> int:
    """Where an answer begins after its reasoning."""
    return len(text) - len(text.rpartition(END)[2].lstrip())


def _told(message: Message) -> str:
    """Everything in a turn, as text."""
    calls = (f"{call.name}({call.arguments})" for call in message.calls)
    said = [message.name, message.reasoning, message.content, *calls]
    return " ".join(each for each in said if each)


def _turns(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Each question by itself, and each answer with the question before it."""
    question = ""
    for message in messages:
        if message.role == "user":
            question = message.content
            yield question, ""
        elif message.role == "assistant":
            yield question, message.content


def _answer(messages: Sequence[Message]) -> str | None:
    """The answer to the question that the messages begin with, if there is one."""
    for message in messages[1:]:
        if message.role == "user":
            return None
        if message.role == "assistant" and not message.calls:
            return message.content
    return None


def _blank(message: Message) -> Message:
    """A call or a tool's result without its content: the cloud gets only names."""
    calls = tuple(replace(call, arguments="{}") for call in message.calls)
    content = MARK if message.content else ""
    name = message.name if message.role == "tool" else ""
    return replace(message, content=content, calls=calls, reasoning="", name=name)
