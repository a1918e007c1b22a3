"""Retrieval on the device: finds a request's passages, and makes rows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from app.documents.hits import DocumentHit, Follows, Scope
from app.documents.store import DocumentStore
from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest, Source, question_of
from app.generation.plan import Retrieved
from app.ledger.spending import digest_of_passage
from app.peer_link.client import Link
from app.peer_link.fetch import PublicHit, fetch
from app.places import Places
from dragon.inference.engine import Engine
from dragon.inference.rows import Row, room_for_document
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.link import control
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.judge import TextJudge, Whose, whose
from dragon.retrieval.prompt_rows import (
    NO_ANSWER,
    Answers,
    bare_row,
    context_row,
    continuing,
    document_rows,
    first_number,
    nothing_found,
    quotes_of,
    rescoring,
)
from dragon.retrieval.query_parsing import asks_nothing, questions_of
from dragon.retrieval.relevance import LEAST, Hit
from dragon.sampling.role import Role

CLOSEST = 3
"""How many passages to show beside those that answer."""

PREMISE = 32
"""The most tokens of a line that an answer begins with: the judge reads 48, the question's too."""

# Concurrent searches, and those of one caller: what they share (threads, database connections)
# would otherwise serve whoever came first.
_SEARCHES, _FOR_ONE = 4, 3
_TURNS = 6  # of a chat, at most, in which a question may be changed: "And in March?"


@dataclass
class Retrieval:
    """Finds passages and makes rows of them, in the form the model answers from.

    There are `top_k` per side unless a request sets its own number; None means the model's default.
    Relevance of sentence rows is re-scored every `rescore_every` tokens, unless it is 0. A unit of
    cosine is worth `slope` nats there, and in a text to continue.
    """

    tokenizer: Tokenizer
    embedder: TextEmbedder
    judge: TextJudge
    engine: Engine
    documents: DocumentStore
    link: Link
    answers: Answers
    top_k: int | None
    rescore_every: int
    slope: float
    _places: Places = field(default_factory=lambda: Places(_SEARCHES, _FOR_ONE), init=False)

    def form(self, request: GenerationRequest) -> tuple[Answers, int]:
        """How a request is answered, and the most passages that a side uses.

        The baselines that fetch documents have a row per sentence.
        """
        style = self.answers.on(raw=request.raw or request.mode.fetches)
        default = style.passages if self.top_k is None else self.top_k
        wanted = default if request.top_k is None else request.top_k
        if style.one_row:
            return style, wanted
        slots = self.engine.model.cache.slots
        return style, min(wanted, slots if request.epsilon is None else slots - 1)

    async def find(self, request: GenerationRequest) -> Retrieved:
        """Passages as rows, only those that leave room for the answer.

        Includes the cloud's, if the mode fetches them.
        """
        style, most = self.form(request)
        if not (request.query and most):
            return await self._rowed(request, style, [], await self._fetch(request))
        # Counted before the search, which finds what has been read by then.
        unread = await self.documents.unread(_scope(request))
        said = await self.said(request)
        own, fetched, near, matter = await asyncio.gather(
            self.search(request, style, most, said),
            self._fetch(request),
            self._closest(request, said),
            self._whose(request),
        )
        # For a question that anybody may answer, the user's own line must be surer to leave the
        # cloud out. It still answers if the cloud finds nothing.
        best = max((hit.relevance for hit in own), default=LEAST)
        sure = matter.leans or not matter.prior or best + matter.prior >= LEAST
        less = max(matter.prior, min(0.0, LEAST - best))
        weighed = [replace(hit, relevance=hit.relevance + less) for hit in own]
        found = await self._rowed(request, style, weighed, fetched)
        return replace(
            found,
            answers=found.answers and sure,
            nothing_relevant=not own and not asks_nothing(request.query),
            unread_documents=unread,
            closest=[each for each in near if not any(_overlap(each, s) for s in found.sources)],
            premise=_premise(request, own, found)
            if matter.leans and style is Answers.LINES
            else (),
        )

    async def _whose(self, request: GenerationRequest) -> Whose:
        """Whose matter the question is; the user's if documents were chosen."""
        chosen = request.documents is not None or request.collections is not None
        if chosen or request.raw or not request.judged:
            return Whose()
        job = self.engine.submit_urgent(lambda: whose(request.query, self.judge))
        return await asyncio.wrap_future(job)

    async def search(
        self, request: GenerationRequest, style: Answers, most: int, said: DocumentHit | None
    ) -> Sequence[DocumentHit]:
        """The passages that answer, likelier near what was `said` if the question follows it.

        A question that the model left as it was stands alone: only the row of a table that was said
        may still be meant.
        """
        before = request.passed_over

        async def unused(question: str, k: int, scope: Scope) -> list[DocumentHit]:
            look = (
                self.documents.passages_about
                if style is Answers.WORDS
                else partial(self.documents.search, relevant=request.judged)
            )
            found = await look(question, k + len(before), scope)
            return [hit for hit in found if not any(hit.text in text for text in before)][:k]

        anywhere = _scope(request)
        near = replace(anywhere, turns=_turns(request.messages))
        if said is not None:
            asked = question_of(request.messages)
            alone = style.one_row and request.query == asked
            # "Where?" alone tells no line from another.
            wording = request.query if asks_nothing(asked) else asked
            near = replace(near, follows=Follows(said, None if alone else wording))
        async with self._places.one():
            if style is not Answers.LINES:
                return await unused(request.query, most, near)
            # A line for each of the message's questions, or the best one for the whole message.
            parts = questions_of(request.query)[1:]
            apart = [await unused(each, 1, anywhere) for each in parts]
            lines = list({hit.text: hit for found in apart for hit in found}.values())
            return lines if len(lines) > 1 else await unused(request.query, 1, near)

    async def _closest(
        self, request: GenerationRequest, said: DocumentHit | None
    ) -> Sequence[Source]:
        """The nearest passages, for people to check an answer.

        Two are from the document that the chat is about, if it is about one.
        """
        query = request.query
        if request.raw or asks_nothing(query):
            return []
        async with self._places.one():
            hits = list(await self.documents.closest(query, CLOSEST, _scope(request)))
            if said is not None:
                there = await self.documents.closest(query, CLOSEST - 1, Scope((said.document,)))
                ids = {hit.id for hit in there}
                hits = [*there, *(hit for hit in hits if hit.id not in ids)][:CLOSEST]
        return [_source(hit) for hit in sorted(hits, key=lambda hit: hit.score, reverse=True)]

    async def said(self, request: GenerationRequest) -> DocumentHit | None:
        """The passage that the last reply with an answer was written from, if any."""
        for message in reversed(request.messages):
            if message.role == "assistant" and message.content not in ("", NO_ANSWER, MARK):
                reply = message.content[-control.MAX_QUERY :]
                return await self.documents.said(reply, _scope(request))
        return None

    async def _fetch(self, request: GenerationRequest) -> Sequence[PublicHit]:
        """The cloud's documents, if the mode fetches them."""
        if request.private or not request.mode.fetches:
            return []
        model, with_kv = self.engine.model, request.mode.fetches_kv
        asked = control.Fetch(
            query=request.asked,
            top_k=self.form(request)[1],
            raw=request.raw,
            weights=model.weights if with_kv and model.kv is not None else None,
        )
        return await fetch(self.link, request.id, asked, self.tokenizer, model)

    # Rows.

    async def _rowed(
        self,
        request: GenerationRequest,
        style: Answers,
        own: Sequence[DocumentHit],
        fetched: Sequence[PublicHit],
    ) -> Retrieved:
        """The rows of what was found; passages of a text to continue are weighed anew."""
        hits: list[Hit] = [*own, *fetched]
        if not hits:
            return Retrieved([self.without(request)], [])
        if style is Answers.LINES:
            return self._quoted(request, own)
        if style is Answers.WORDS:
            return self._numbered(request, own)
        if self.answers.continues(raw=request.raw):
            job = self.engine.submit_urgent(
                lambda: continuing(self.embedder, request.query, hits, self.slope)
            )
            best = await asyncio.wrap_future(job)
        else:
            best = sorted(hits, key=lambda hit: hit.relevance, reverse=True)
        kept = best[: self.engine.model.cache.slots]
        if request.mode.concatenates:
            return self._concatenated(request, kept)
        return self._row_each(request, kept)

    def _row_each(self, request: GenerationRequest, hits: Sequence[Hit]) -> Retrieved:
        """One row per passage."""
        rows, kept = document_rows(
            self.tokenizer,
            hits,
            self._room(request),
            raw=request.raw,
            quotes=self.answers.quotes,
            begins=request.begins,
        )
        for number, hit in enumerate(kept):
            if isinstance(hit, PublicHit):
                rows[number] = replace(rows[number], kv=hit.kv)
        every, slope = self.rescore_every, self.slope
        again = rescoring(self.embedder, self.tokenizer, request.query, rows, every, slope)
        return _retrieved(rows, kept, again)

    def _quoted(self, request: GenerationRequest, hits: Sequence[DocumentHit]) -> Retrieved:
        """Lines that are quoted, in one row."""
        lines = [quoted(hit) for hit in hits]
        whole = replace(lines[0], text=" ".join(line.text for line in lines))
        found = self._row_each(request, [whole])
        sources = [_source(line) for line in lines if found.sources]
        return replace(found, sources=sources, passages=_digests(lines))

    def _numbered(self, request: GenerationRequest, hits: Sequence[DocumentHit]) -> Retrieved:
        """Passages with numbers, in one row, for a model that writes in its own words."""
        first = first_number(Role.DEVICE, self.form(request)[1])
        row, kept = context_row(self.tokenizer, hits, self._room(request), first, request.begins)
        found = _retrieved([row], kept)
        numbered = [replace(each, citation=n) for n, each in enumerate(found.sources, first)]
        return replace(found, sources=numbered)

    def _concatenated(self, request: GenerationRequest, hits: Sequence[Hit]) -> Retrieved:
        """Context aggregation: as many documents as fit before the question, in one row."""
        for count in range(len(hits), 0, -1):
            kept = hits[:count]
            text = "\n\n".join(hit.text for hit in kept)
            tokens = self.tokenizer.document_row(text, raw=request.raw, begins=request.begins)
            if len(tokens) <= self._room(request):
                quoting = self.answers.quotes and not request.raw
                quotes = quotes_of(self.tokenizer, [h.text for h in kept]) if quoting else ()
                return _retrieved([Row(tuple(tokens), kept[0].relevance, quotes=quotes)], kept)
        return Retrieved([self.without(request)], [])

    def without(self, request: GenerationRequest) -> Row:
        """The row before a request's conversation if nothing is found."""
        style, most = self.form(request)
        if style is Answers.WORDS and request.query and most:
            return nothing_found(self.tokenizer, request.begins)
        return bare_row(
            self.tokenizer, raw=request.raw, quotes=self.answers.quotes, begins=request.begins
        )

    def _room(self, request: GenerationRequest) -> int:
        """The most tokens of a row."""
        context = self.engine.model.context
        return room_for_document(context, len(request.conversation), request.limit)


def _retrieved(
    rows: Sequence[Row], kept: Sequence[Hit], again: Rescoring | None = None
) -> Retrieved:
    """Rows of these passages."""
    sources = [_source(hit) for hit in kept]
    return Retrieved(rows, sources, again, answers=bool(kept), passages=_digests(kept))


def _premise(
    request: GenerationRequest, own: Sequence[DocumentHit], found: Retrieved
) -> tuple[int, ...]:
    """The tokens of the one line that is quoted, if a whole answer surely begins with them."""
    if not found.sources or len(own) != 1 or own[0].query or own[0].others:
        return ()
    premise = found.rows[0].quotes[0].first
    sampling = request.sampling
    held = sampling.logit_bias or sampling.grammar or sampling.min_tokens
    ends = request.stop or request.stop_tokens or request.limit <= len(premise)
    bounded = request.epsilon is not None or len(premise) > PREMISE
    return () if held or ends or bounded else premise


def _scope(request: GenerationRequest) -> Scope:
    return Scope(request.documents, request.collections)


def _turns(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """A chat's last questions with their replies; none if only one is asked."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            turns.append((message.content, ""))
        elif message.role == "assistant" and turns:
            turns[-1] = turns[-1][0], message.content
    return tuple(turns[-_TURNS:]) if len(turns) > 1 else ()


def quoted(hit: DocumentHit) -> DocumentHit:
    """A line as a reply quotes it, which mentions the other lines that it stands for."""
    if not hit.others:
        return hit
    also = "another place says" if hit.others == 1 else f"{hit.others} other places say"
    text = f"{hit.text} (The newest; {also} otherwise.)"
    return replace(hit, text=text, sentences=(hit.text,))


def _overlap(one: Source, other: Source) -> bool:
    """Whether two passages of the user's documents share a part."""
    if one.id != other.id or None in (one.start, one.end, other.start, other.end):
        return False
    return max(one.start or 0, other.start or 0) < min(one.end or 0, other.end or 0)


def _digests(hits: Sequence[Hit]) -> list[str]:
    """The digests by which budgets identify sentences of the user's own passages."""
    return [
        digest_of_passage(text, hit.owner)
        for hit in hits
        if isinstance(hit, DocumentHit)
        for text in hit.sentences or (hit.text,)
    ]


def _source(hit: Hit) -> Source:
    source = Source("public", hit.document, hit.title, hit.text, score=hit.score, weight=0.0)
    if isinstance(hit, DocumentHit):
        source = replace(source, page=hit.page, start=hit.start, end=hit.end, around=hit.around)
        return replace(source, side="private", query=hit.query, confidence=hit.confidence)
    return source
