"""Removes the words of a document from stored conversations, their titles and the ledger.

A document's words in a text are runs of five words that both have, however spaced or punctuated. In
an answer that read the document they are also its passages as a whole, words with a digit in them
(codes, numbers, dates), every sentence that cites it and, where it was broken off, a shorter run at
its end. What a model says in its own words, without any of these, stays.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import false, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage import message_search
from app.storage.purge import Purge
from app.storage.tables import Conversation, LedgerAnswer, MessageState, Phrase, StoredMessage

REDACTED = "[words of a deleted document]"
"""Replaces a document's words."""
_REDACTED_IN_TITLE = "[…]"

RUN = 5
_WORD = re.compile(r"\w+(?:[-./:'’]\w+)*")
_DONE = re.compile(re.escape(REDACTED))
_MARK = re.compile(r"[.!?]+(?!\S)")
_SENTENCE_ENDS = re.compile(r"[.!?](?=\s)|\n")

Range = tuple[int, int]


@dataclass(frozen=True)
class Words:
    """Words that texts and a document have in common: hashes of runs, and words with a digit."""

    runs: frozenset[int]
    identifiers: frozenset[str]

    @classmethod
    def shared(cls, texts: Iterable[str], document: str) -> Words:
        """The words that any of the texts has in common with the document."""
        runs: set[int] = set()
        identifiers: set[str] = set()
        for text in texts:
            said = [word for word, _ in _words(text)]
            runs.update(_runs(said))
            identifiers.update(w for w in said if len(w) > 1 and any(map(str.isdigit, w)))
        own: set[str] = set()
        last: deque[str] = deque(maxlen=RUN)
        kept: set[int] = set()
        for match in _WORD.finditer(document):
            last.append(word := match[0].casefold())
            if word in identifiers:
                own.add(word)
            if len(last) == RUN and (run := hash(tuple(last))) in runs:
                kept.add(run)
        return cls(frozenset(kept), frozenset(own))

    def within(self, text: str) -> Iterator[Range]:
        """The ranges of a text, in characters, that are runs of the document."""
        words = _words(text)
        runs = enumerate(_runs([word for word, _ in words]))
        found = ((words[n][1][0], words[n + RUN - 1][1][1]) for n, run in runs if run in self.runs)
        return _not_redacted(text, found)

    def stand_in(self, texts: Iterable[str]) -> bool:
        """Whether any of the texts has a run of the document."""
        return any(True for text in texts for _ in self.within(text))


@dataclass(frozen=True)
class QuotedIn:
    """The ids of messages and, by these or their title, conversations with a document's words."""

    messages: frozenset[str] = frozenset()
    conversations: frozenset[str] = frozenset()

    def __or__(self, other: QuotedIn) -> QuotedIn:
        return QuotedIn(self.messages | other.messages, self.conversations | other.conversations)


@dataclass(frozen=True)
class Redaction:
    """Redacts a document's words in what is stored, even once the document is deleted."""

    document: str
    text: str
    sessions: async_sessionmaker[AsyncSession]
    purge: Purge

    async def quoted(self) -> QuotedIn:
        """Find what `apply` would redact."""
        words = await self._shared()
        async with self.sessions() as session:
            places = await self._places(session, words)
            titles = await self._titles(session, words)
            holding = await session.scalars(
                select(StoredMessage.conversation_id).where(StoredMessage.id.in_(places))
            )
            return QuotedIn(frozenset(places), frozenset({*holding, *(each.id for each in titles)}))

    async def apply(self, hold: Callable[[str], None]) -> None:
        """Redact messages and titles, and erase those words of the ledger that quote the document.

        `hold` is called with each answer that is being written: its writer has the words, too, and
        must store what `of` returns.
        """
        words = await self._shared()
        async with self.sessions.begin() as session:
            # Write first: what is saved between reading and writing would be lost.
            await session.execute(update(StoredMessage).where(false()).values(text=""))
            writing = StoredMessage.state == MessageState.WRITING
            for identity in await session.scalars(select(StoredMessage.id).where(writing)):
                hold(identity)
            for identity, ranges in (await self._places(session, words)).items():
                message = await session.get_one(StoredMessage, identity)
                message.record = _without(message.record, words, ranges)
                message.text, message.tokens = replaced(message.text, ranges), []
                await session.flush()
                await message_search.index(session, message)
            for each in await self._titles(session, words):
                place = merged(each.title, words.within(each.title))
                each.title = replaced(each.title, place, _REDACTED_IN_TITLE)
            for row in await session.scalars(select(LedgerAnswer)):
                if words.stand_in(row.words or ()):
                    row.words = row.sources = None
                if words.stand_in(_texts(row.given)):
                    row.given = None
            await message_search.merge(session)
        await self.purge.now()

    async def of(
        self, text: str, record: dict[str, Any], state: MessageState
    ) -> tuple[str, dict[str, Any]]:
        """An answer's text and record, redacted."""
        said = [text, *_texts(record.get("response"))]
        words = await asyncio.to_thread(Words.shared, said, self.text)
        ranges = await self._ranges(words, text, record, state)
        if ranges is None:
            return text, record
        return replaced(text, ranges), _without(record, words, ranges)

    async def _shared(self) -> Words:
        async with self.sessions() as session:
            texts = []
            for text, record in await session.execute(
                select(StoredMessage.text, StoredMessage.record)
            ):
                texts += [text, *_texts(record.get("response"))]
            texts += await session.scalars(select(Conversation.title))
            for parts in await session.execute(select(LedgerAnswer.words, LedgerAnswer.given)):
                texts += _texts([*parts])
        return await asyncio.to_thread(Words.shared, texts, self.text)

    async def _places(self, session: AsyncSession, words: Words) -> dict[str, list[Range]]:
        """By message, the ranges of its text that are words of the document."""
        found = {}
        stored = select(
            StoredMessage.id, StoredMessage.text, StoredMessage.record, StoredMessage.state
        )
        for identity, *message in await session.execute(stored):
            if (ranges := await self._ranges(words, *message)) is not None:
                found[identity] = ranges
        return found

    async def _ranges(
        self, words: Words, text: str, record: dict[str, Any], state: str
    ) -> list[Range] | None:
        """The ranges of the document's words in a text; None if it and its record have none."""
        ranges = [*words.within(text)]
        passages = [  # of the document that the answer read; "" for those blanked since
            source["text"]
            for source in record.get("sources", [])
            if source["side"] == "private"
            if source["id"] == self.document or source.get("deleted")
        ]
        if passages:
            ranges += (place for word, place in _words(text) if word in words.identifiers)
            if state != MessageState.DONE:
                ranges += await asyncio.to_thread(broken_off, text, self.text)
            for passage in passages:
                ranges += _whole(text, passage)
            ranges += _citing(text, record, self.document)
        ranges = [*_not_redacted(text, ranges)]
        if ranges or words.stand_in(_texts(record.get("response"))):
            return merged(text, ranges)
        return None

    async def _titles(self, session: AsyncSession, words: Words) -> Sequence[Conversation]:
        every = await session.scalars(select(Conversation))
        return [each for each in every if words.stand_in([each.title])]


def merged(text: str, ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, joined across spaces and marks, and with a whole sentence's mark."""
    whole: list[Range] = []
    for start, end in sorted(ranges):
        if whole and not _WORD.search(text, whole[-1][1], max(start, whole[-1][1])):
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    for n, (start, end) in enumerate(whole):
        before, mark = text[:start].rstrip(" "), _MARK.match(text, end)
        if mark and (not before or before[-1] in ".!?\n"):
            whole[n] = start, mark.end()
    return whole


def broken_off(text: str, document: str) -> list[Range]:
    """The range of the last words, fewer than RUN, that the document has; the last may be cut."""
    words = [place for _, place in _words(text)][1 - RUN :]
    for at in range(len(words)):
        run = r"\W+".join(re.escape(text[start:end]) for start, end in words[at:])
        if re.search(rf"\b{run}", document, re.IGNORECASE):
            return [(words[at][0], words[-1][1])]
    return []


def replaced(text: str, ranges: Sequence[Range], phrase: str = REDACTED) -> str:
    """The text with the phrase in the place of each range."""
    for start, end in reversed(ranges):
        text = text[:start] + phrase + text[end:]
    return text


def _not_redacted(text: str, ranges: Iterable[Range]) -> Iterator[Range]:
    """The ranges except those within `REDACTED`, whose words a document may have, too."""
    done = [found.span() for found in _DONE.finditer(text)]
    return (
        (start, end)
        for start, end in ranges
        if not any(begin <= start and end <= until for begin, until in done)
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _redacted(value: Any, words: Words) -> Any:
    """The value with the document's words replaced; a call's arguments with any go whole."""
    if isinstance(value, str):
        return replaced(value, merged(value, words.within(value)))
    if isinstance(value, list):
        return [_redacted(each, words) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _redacted(each, words) for name, each in value.items()}
    if kept.get("arguments") != value.get("arguments"):
        kept["arguments"] = "{}"
    return kept


def _without(record: dict[str, Any], words: Words, ranges: Sequence[Range]) -> dict[str, Any]:
    """The record with offsets of the redacted text, with the redactions, without citations."""
    kept = {name: value for name, value in record.items() if name not in ("citations", "not_asked")}
    if seams := record.get("seams"):
        kept["seams"] = [[_moved(at, ranges), *rest] for at, *rest in seams]
    phrases = [
        [_moved(start, ranges), _moved(end, ranges), phrase]
        for start, end, phrase in record.get("phrases", [])
        if not any(begin < end and start < until for begin, until in ranges)
    ]
    for start, _ in ranges:
        at = _moved(start, ranges)
        phrases.append([at, at + len(REDACTED), Phrase.REDACTED])
    if phrases:
        kept["phrases"] = sorted(phrases)
    if (begun := record.get("private_from")) is not None:
        kept["private_from"] = _moved(begun, ranges)
    if "response" in kept:
        kept["response"] = _redacted(kept["response"], words)
    return kept


def _moved(offset: int, ranges: Sequence[Range]) -> int:
    """The offset of a place of the text once the ranges before it are replaced."""
    moved = offset
    for start, end in ranges:
        if start < offset:
            moved += len(REDACTED) - (min(end, offset) - start)
    return moved


def _whole(text: str, passage: str) -> Iterator[Range]:
    wanted = [word for word, _ in _words(passage)]
    words = _words(text)
    for at in range(len(words) - len(wanted) + 1 if wanted else 0):
        if [word for word, _ in words[at : at + len(wanted)]] == wanted:
            yield words[at][1][0], words[at + len(wanted) - 1][1][1]


def _citing(text: str, record: dict[str, Any], document: str) -> Iterator[Range]:
    sources = record.get("sources", [])
    ends = [match.end() for match in _SENTENCE_ENDS.finditer(text)]
    for citation in record.get("citations", []):
        if sources[citation["source"]]["id"] == document:
            start = max((end for end in ends if end <= citation["start"]), default=0)
            start += len(text[start:]) - len(text[start:].lstrip())
            yield start, min((end for end in ends if end >= citation["end"]), default=len(text))


def _words(text: str) -> list[tuple[str, Range]]:
    return [(match[0].casefold(), match.span()) for match in _WORD.finditer(text)]


def _runs(words: Sequence[str]) -> Iterator[int]:
    return (hash(tuple(words[at : at + RUN])) for at in range(len(words) - RUN + 1))
