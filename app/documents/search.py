"""Hybrid search of uploaded documents: vectors and BM25, fused, and a judge of the lines found.

It finds sentences or, for a model to write from and a person to read, passages around them. While a
document is being ingested, it uses the words of the sentences that are cut and the vectors of those
that are embedded. Misspelt words are read as the documents spell them. A follow-up question is read
in both wordings, as it was asked and standing alone, and lines beside those that the last reply was
written from are likelier.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Select, column, not_, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.hits import (
    EVERYTHING,
    HEAD,
    DocumentHit,
    Scope,
    cut_passages,
    hit_of,
    in_paragraphs,
    paragraph_of,
    subject,
    text_of,
)
from app.documents.index import DocumentIndex, RunJob
from app.documents.summaries import section, summary
from app.documents.tables.answer import nearest_answer
from app.documents.tables.records import Shelf
from app.documents.tables.wording import OPERATION_WORDS, Operation, operation_of
from app.owners import acting, everyone
from app.storage.tables import Chunk, Document
from dragon.errors import InvalidRequestError
from dragon.link.control import MAX_QUERY
from dragon.retrieval import find, lexical
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.judge import TextJudge
from dragon.retrieval.names import spellings
from dragon.retrieval.query_parsing import Query

SAID = 0.6
"""The least share of words that a passage and a reply from it have in common."""

NEXT = 4
"""Sentences read before, and after, the one that the conversation was about."""

_AMENDS = re.compile(
    r"\b(?:amend(?:s|ed|ment)?|now|no longer|instead of|nunmehr|geändert|nachtrag)\b", re.IGNORECASE
)
_CHUNKS = select(Chunk.id).join(Document, Document.id == Chunk.document_id)
_FTS, _MATCH = table("chunks_fts", column("rowid")), text("chunks_fts MATCH :expression")
_NEW = 8  # passages without a vector yet, at most, that are embedded for a question


class _Texts(dict[str, str]):
    """The texts of documents; each is read, whole, when it is first asked for."""

    def __init__(self, files: Path) -> None:
        self._files = files

    def __missing__(self, document: str) -> str:
        self[document] = text = text_of(self._files, document)
        return text


@dataclass(frozen=True)
class Finder:
    """Searches the vectors, the full text and the tables of documents."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    tables: Shelf
    embedder: TextEmbedder
    judge: TextJudge
    run_urgent: RunJob

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> list[DocumentHit]:
        """At most k passages, best first, near-duplicates removed.

        With `relevant`, only those likely to answer, or a summary, section or table's answer alone.
        Raises InvalidRequestError if the scope names an unknown document or collection.
        """
        query, asked, best = await self._nearest(query, k, scope)
        if not relevant:
            return best[:k]
        if (computed := await self._computed(query, best, scope)) is not None:
            return computed
        found = await self._judged(asked, best, scope)
        if await self._is_a_part(asked.text, found):
            return []
        return await asyncio.to_thread(in_paragraphs, asked.text, found[:k], self.tables.files)

    async def passages(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k passages that answer, `context` their headings; a computed answer is first."""
        query, asked, best = await self._nearest(query, find.SENTENCES * k, scope)
        computed = await self._computed(query, best, scope) or []
        hits = (await self._judged(asked, best, scope))[: find.SENTENCES * k]
        found = await self._cut(hits, k, find.TO_WRITE_FROM)
        return [*(replace(hit, context="") for hit in computed), *found][:k]

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k of the nearest paragraphs, or parts of them, and rows, answering or not."""
        hits = await self.search(query, find.SENTENCES * k, scope, relevant=False)
        return await self._cut(hits, k, find.TO_READ, alone=True)

    async def _cut(
        self, hits: Sequence[DocumentHit], k: int, length: find.Length, *, alone: bool = False
    ) -> list[DocumentHit]:
        """At most k passages around the hits; with `alone`, each within its hit's paragraph."""
        near = await to_the_end(self.near(hits))

        def cut() -> list[DocumentHit]:
            texts = _Texts(self.tables.files)
            for hit in hits if alone else ():
                near[hit.id] = paragraph_of(hit, near[hit.id], texts[hit.document])
            return cut_passages(hits, near, k, length, texts)

        return await asyncio.to_thread(cut)

    async def _judged(
        self, asked: Query, best: Sequence[DocumentHit], scope: Scope
    ) -> list[DocumentHit]:
        read, thread = find.to_read(asked.questions, best), None
        if scope.follows is not None and scope.follows.asked is not None:
            hit = scope.follows.hit
            around_it = (await to_the_end(self.near([hit])))[hit.id]
            at = next((n for n, each in enumerate(around_it) if each.id == hit.id), 0)
            beside = {each.id: each for each in around_it[max(0, at - NEXT) : at + NEXT + 1]}
            read = [*beside.values(), *(hit for hit in read if hit.id not in beside)]
            thread = find.Thread(scope.follows.asked, beside.keys())
        near = await to_the_end(self.near(read))
        reader = find.LineReader(self.judge, self.embedder)
        found = await self.run_urgent(
            lambda: reader.answering(asked.questions, read, near, thread=thread)
        )
        return _newest(asked.text, found, near)

    async def said(self, reply: str, scope: Scope = EVERYTHING) -> DocumentHit | None:
        """The sentence or row that a reply was written from, if any."""
        for hit in await self.search(reply, 1, scope, relevant=False):
            # A reply may be a passage and more, or a part of one, such as a cell of a row.
            if max(lexical.coverage(hit.text, reply), lexical.coverage(reply, hit.text)) >= SAID:
                return hit
        return None

    async def near(self, hits: Sequence[DocumentHit]) -> dict[int, Sequence[DocumentHit]]:
        """The sentences around each hit, in order; none where its document was deleted."""
        near: dict[int, Sequence[DocumentHit]] = {}
        async with self.sessions() as session:
            for hit in hits:
                if hit.tabular:
                    near[hit.id] = [hit]
                    continue
                own = select(Chunk).where(Chunk.document_id == hit.document)
                before = own.where(Chunk.id < hit.id).order_by(Chunk.id.desc()).limit(find.REACH)
                behind = own.where(Chunk.id >= hit.id).order_by(Chunk.id).limit(find.REACH + 1)
                nearest = [*(await session.scalars(before))][::-1]
                nearest += await session.scalars(behind)
                found = (hit_of(each, hit.title, hit.kind, None) for each in nearest)
                near[hit.id] = [replace(each, about=hit.about) for each in found]
        return near

    async def _nearest(
        self, query: str, k: int, scope: Scope
    ) -> tuple[str, Query, list[DocumentHit]]:
        """The query as documents spell it, and scored sentences, best first, no near-duplicates."""
        query = await to_the_end(respelled(self.sessions, query))
        asked = await self.run_urgent(lambda: Query.of(query, self.embedder))
        # A cancelled query would leave its snapshot open, and deleted text in the log with it.
        hits = await to_the_end(self._candidates(asked, max(find.CANDIDATES, 4 * k), scope))
        seen = [hit for hit in hits if hit.vector is not None]
        if new := [hit for hit in hits if hit.vector is None][:_NEW]:
            seen += await self.run_urgent(lambda: find.embedded(new, self.embedder))

        def in_order() -> list[DocumentHit]:
            apart = find.distinct(sorted(seen, key=lambda hit: -hit.id))
            prose = {hit.document for hit in apart if not hit.tabular}
            subjects = {each: subject(text_of(self.tables.files, each, HEAD)) for each in prose}
            titled = [replace(hit, about=subjects.get(hit.document, "")) for hit in apart]
            return find.ranked(asked.questions, asked.vectors, titled)

        return query, asked, await asyncio.to_thread(in_order)

    async def _computed(
        self, query: str, best: Sequence[DocumentHit], scope: Scope
    ) -> list[DocumentHit] | None:
        """A summary, a section or a table's answer to the question as asked or standing alone."""
        sessions, files, follows = self.sessions, self.tables.files, scope.follows
        asked, said = (follows.asked, follows.hit) if follows else (None, None)
        turns = [(turn[-MAX_QUERY:], reply[-MAX_QUERY:]) for turn, reply in scope.turns]
        for each in dict.fromkeys(filter(None, (asked, query))):
            made = summary(sessions, self.index, files, each, best, scope)
            if (summed := await to_the_end(made)) is not None:
                return summed
            if under := await to_the_end(section(sessions, files, each, scope)):
                return under
            each = each[-MAX_QUERY:]
            known = await asyncio.to_thread(nearest_answer, each, self.tables, best, said, turns)
            if known is not None:
                return [known]
            turns = []  # they are the same for any wording
        return None

    async def _is_a_part(self, question: str, found: Sequence[DocumentHit]) -> bool:
        """Whether the first line is only a part of what is asked, as a row is of a table's sum."""
        asked = operation_of(question)
        if asked is Operation.CELLS or not found:
            return False
        first = found[0]
        near = (await to_the_end(self.near([first])))[first.id]
        several = len({each.id for each in _alike(question, [*found, *near])}) > 1
        if several and asked in (Operation.SUM, Operation.MEAN):
            return True
        tables = await asyncio.to_thread(self.tables.of, first.document, first.kind)
        spans = (span for each in tables for span in each.spans)
        inside = any(start <= first.start < end for start, end in spans)
        return inside and operation_of(first.text) is not asked

    async def _candidates(self, query: Query, wanted: int, scope: Scope) -> list[DocumentHit]:
        """Unscored candidate chunks, best first; some have no vector yet."""
        async with self.index.settled.reader, self.sessions() as session:
            allowed = await _chunks_within(session, scope)
            # The old version answers until the new one is whole.
            replacing = _chunks_of(select(Document.id).where(Document.replaces))
            hidden = list(await session.scalars(replacing))
            near = await asyncio.to_thread(self.index.search, query.vector, wanted, allowed, hidden)
            worded = await _worded(session, query.text, wanted, scope)
            candidates = lexical.fused(near, worded)[:wanted]
            there = _CHUNKS.where(Chunk.id.in_(candidates), not_(Document.replaces))
            columns = Chunk, Document.filename, Document.kind
            rows = (await session.execute(there.with_only_columns(*columns))).all()
            vectors = self.index.vectors(candidates)
        return [
            hit_of(chunk, filename, kind, vectors.get(chunk.id))
            for chunk, filename, kind in sorted(rows, key=lambda row: candidates.index(row[0].id))
        ]


def _newest(
    question: str, hits: Sequence[DocumentHit], near: Mapping[int, Sequence[DocumentHit]]
) -> list[DocumentHit]:
    """The lines, first the newest version of the likeliest: one that says it in other figures.

    In its own file a version is a later line that says it amends something. Of files named alike,
    the highest number is the newest, else the latest upload. `others` counts the older versions.
    """
    if not hits:
        return []

    def covers(hit: DocumentHit) -> float:
        return lexical.coverage(question, f"{hit.text} {hit.context} {hit.about} {hit.title}")

    first, *rest = hits
    said = _without_figures(first.text)
    versions = [
        hit
        for hit in rest
        if hit.document != first.document and said and _without_figures(hit.text) == said
        if lexical.words(hit.text) != lexical.words(first.text)
    ]
    versions += [
        replace(line, score=first.score, relevance=first.relevance)
        for line in {each.id: each for lines in near.values() for each in lines}.values()
        if line.document == first.document and line.start > first.start
        if _AMENDS.search(line.text) and lexical.coverage(first.text, line.text) >= SAID
    ]
    # The same line in another person's file is about somebody else.
    versions = [first, *(hit for hit in versions if covers(hit) >= covers(first))]
    alike = len({re.sub(r"\d", "", hit.title) for hit in versions}) == 1

    def age(hit: DocumentHit) -> tuple[list[int], int]:
        return [int(n) for n in re.findall(r"\d{1,9}", hit.title)] if alike else [], hit.id

    newest = max(versions, key=age)
    others = [hit for hit in hits if hit.id != newest.id]
    return [replace(newest, others=len(versions) - 1), *others]


def _alike(question: str, hits: Sequence[DocumentHit]) -> list[DocumentHit]:
    """The first line, and those of its document that say the same in other figures.

    "In Q3" tells the line of Q3 from others, which have fewer of the question's figures.
    """
    figures = set(lexical.words(question)) - set(_without_figures(question))
    named = figures & set(lexical.words(hits[0].text))
    return [
        hit
        for hit in hits
        if hit.document == hits[0].document
        if _without_figures(hit.text) == _without_figures(hits[0].text)
        if not figures & set(lexical.words(hit.text)) < named
    ]


def _without_figures(text: str) -> list[str]:
    return [word for word in lexical.words(text) if not any(map(str.isdigit, word))]


async def _chunks_within(session: AsyncSession, scope: Scope) -> list[int] | None:
    """The chunks whose vectors may be found; None: all. Raises InvalidRequestError."""
    for what, param, given, of in (
        ("file", "documents", scope.documents, Document.id),
        ("collection", "collections", scope.collections, Document.collection),
    ):
        for name in given or ():
            if await session.scalar(select(Document.id).where(of == name).limit(1)) is None:
                raise InvalidRequestError(f"There is no {what} '{name}'.", param=param)
    if scope.documents is None and scope.collections is None:
        return None
    return list(await session.scalars(_chunks_of(scope.within(select(Document.id)))))


def _chunks_of(documents: Select[str]) -> Select[int]:
    return select(Chunk.id).where(Chunk.document_id.in_(documents))


async def _worded(session: AsyncSession, query: str, k: int, scope: Scope) -> list[int]:
    spelt = (f'"{each}"' for each in spellings(query))
    if not (expression := " OR ".join(filter(None, (lexical.match_expression(query), *spelt)))):
        return []
    matching = _CHUNKS.join(_FTS, _FTS.c.rowid == Chunk.id).where(_MATCH, not_(Document.replaces))
    matching = scope.within(matching).order_by(text("chunks_fts.rank")).limit(k)
    return list(await session.scalars(matching, {"expression": expression}))


# Misspelt words.


_TERMS = table("chunks_terms", column("term"), column("cnt"))
_ASKED = OPERATION_WORDS | {"summarise", "summarize", "summary", "overview"}
_VIEW = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunks_terms USING fts5vocab(main, chunks_fts, row)"
)


async def respelled(sessions: async_sessionmaker[AsyncSession], question: str) -> str:
    """Replace each word of a question that is in no document by the most frequent one like it.

    If no document has one, by a word like it that asks for a summary or for a table's figures.
    """
    if not (doubted := lexical.doubtful(question)):
        return question
    async with sessions() as session:
        owner = acting()
        others = select(Document.id).where((Document.owner < owner) | (Document.owner > owner))
        with everyone():
            await session.execute(text(_VIEW))
            hides = await session.scalar(others.where(~Document.shared).limit(1)) is not None
        there = await _counts(session, doubted, hides=hides)
        near = dict[str, str]()
        for word in doubted:
            if word not in there:
                alike = lexical.slips(word)
                found = await _counts(session, alike, hides=hides)
                found = found or dict.fromkeys(alike & _ASKED, 1)
                if found:
                    near[word] = lexical.likeliest(found)
    return await asyncio.to_thread(lexical.corrected, question, near) if near else question


async def _counts(session: AsyncSession, terms: Collection[str], *, hides: bool) -> dict[str, int]:
    """How often documents have terms; if some are hidden, only terms that others have, too."""
    found = select(_TERMS.c.term, _TERMS.c.cnt).where(_TERMS.c.term.in_(terms))
    with everyone():  # the index covers all documents
        counts = {row.term: row.cnt for row in await session.execute(found)}
    if not hides:
        return counts
    having = select(Chunk.id).join(_FTS, _FTS.c.rowid == Chunk.id).where(_MATCH).limit(1)
    return {
        term: count
        for term, count in counts.items()
        if await session.scalar(having, {"expression": f'"{term}"'}) is not None
    }
