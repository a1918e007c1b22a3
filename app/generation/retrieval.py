"""Retrieval on the device: finds a request's passages, and makes rows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from app.documents.hits import DocumentHit, Follows, Scope
from app.documents.store import DocumentStore
from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest, Source
from app.generation.plan import Retrieved
from app.ledger.spending import digest_of_passage
from app.peer_link.client import Link
from app.peer_link.fetch import PublicHit, fetch
from app.places import Places
from dragon.inference.engine import Engine
from dragon.inference.rows import Row, room_for_document
from dragon.inference.tokenizer import Message, Tokenizer
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

    def in_one_row(self, request: GenerationRequest) -> bool:
        """Whether all that is found goes in one row, for a question that stands alone."""
        return self._style(request).one_row

    def cites(self, request: GenerationRequest) -> bool:
        """Whether it is answered in the model's own words, which cite passages by number."""
        return self._style(request) is Answers.WORDS

    def quotes_a_line(self, request: GenerationRequest) -> bool:
        """Whether it is answered by the line that answers best."""
        return self._style(request) is Answers.LINES

    def _style(self, request: GenerationRequest) -> Answers:
        """How it is answered; the baselines that fetch documents have a row per sentence."""
        return self.answers.on(raw=request.raw or request.mode.fetches)

    def passages(self, request: GenerationRequest) -> int:
        style = self._style(request)
        usual = style.passages if self.top_k is None else self.top_k
        wanted = usual if request.top_k is None else request.top_k
        if style.one_row:
            return wanted
        slots = self.engine.model.cache.slots
        return min(wanted, slots if request.epsilon is None else slots - 1)

    async def find(self, request: GenerationRequest, limit: int) -> Retrieved:
        """Passages as rows, only those that leave room for an answer of `limit` tokens.

        Includes the cloud's, if the mode fetches them.
        """
        # Counted before the search, which finds what has been read by then.
        unread = await self.documents.unread(_scope(request)) if self.asks(request) else 0
        said = await self.said(request)
        own, fetched, near, matter = await asyncio.gather(
            self.search(request, said),
            self._fetch(request),
            self._closest(request, said),
            self._whose(request),
        )
        # For a question that anybody may answer, the user's own line must be surer to leave the
        # cloud out. It still answers if the cloud finds nothing.
        best = max((hit.relevance for hit in own), default=LEAST)
        sure = matter.leans or not matter.prior or best + matter.prior >= LEAST
        less = max(matter.prior, min(0.0, LEAST - best))
        own = [replace(hit, relevance=hit.relevance + less) for hit in own]
        hits = await self._weighed(request, [*own, *fetched])
        hits = hits[: self.engine.model.cache.slots]
        if self.in_one_row(request):
            found = self._in_one_row(request, own, limit)
        elif request.mode.concatenates:
            found = self._concatenated(request, hits, limit)
        else:
            found = self.rows(request, hits, limit)
        in_vain = self.asks(request) and not own and not asks_nothing(request.query)
        apart = [each for each in near if not any(_overlap(each, own) for own in found.sources)]
        return replace(
            found,
            answers=found.answers and sure,
            nothing_relevant=in_vain,
            unread_documents=unread,
            closest=apart,
            premise=self._premise(request, own, found) if matter.leans else (),
        )

    def _premise(
        self, request: GenerationRequest, own: Sequence[DocumentHit], found: Retrieved
    ) -> tuple[int, ...]:
        """The tokens of the one line that is quoted, if a whole answer surely begins with them."""
        if len(own) != 1 or own[0].query or own[0].others or not self.quotes_a_line(request):
            return ()
        premise = found.rows[0].quotes[0].first if found.sources else ()
        sampling = request.sampling
        held = sampling.logit_bias or sampling.grammar or sampling.min_tokens
        ends = request.stop or request.stop_tokens or request.limit <= len(premise)
        bounded = request.epsilon is not None or len(premise) > PREMISE
        return () if held or ends or bounded else premise

    async def _whose(self, request: GenerationRequest) -> Whose:
        """Whose matter the question is; the user's if documents were chosen."""
        chosen = request.documents is not None or request.collections is not None
        if chosen or request.raw or not request.judged or not self.asks(request):
            return Whose()
        job = self.engine.submit_urgent(lambda: whose(request.query, self.judge))
        return await asyncio.wrap_future(job)

    async def _weighed(self, request: GenerationRequest, hits: Sequence[Hit]) -> list[Hit]:
        """Passages of both sides, best first; weighed anew for a text to continue."""
        if not (hits and self.answers.continues(raw=request.raw)):
            return sorted(hits, key=lambda hit: hit.relevance, reverse=True)
        job = self.engine.submit_urgent(
            lambda: continuing(self.embedder, request.query, hits, self.slope)
        )
        return await asyncio.wrap_future(job)

    def asks(self, request: GenerationRequest) -> bool:
        """Whether the user's documents are searched."""
        return bool(self.passages(request) and request.query)

    async def search(
        self, request: GenerationRequest, said: DocumentHit | None = None
    ) -> Sequence[DocumentHit]:
        """The passages that answer, likelier near what was `said` if the question follows it.

        A question that the model left as it was stands alone: only the row of a table that was said
        may still be meant.
        """
        if not self.asks(request):
            return []
        k, before = self.passages(request), request.passed_over
        scope = replace(_scope(request), turns=_turns(request.messages))
        asked = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        if said is not None:
            alone = self.in_one_row(request) and request.query == asked
            # "Where?" alone tells no line from another.
            asked = request.query if asks_nothing(asked) else asked
            scope = replace(scope, follows=Follows(said, None if alone else asked))
        look: Callable[[str, int, Scope], Awaitable[Sequence[DocumentHit]]]
        look = partial(self.documents.search, relevant=request.judged)
        if self._style(request) is Answers.WORDS:
            look = self.documents.passages_about

        async def unused(question: str, k: int, scope: Scope) -> list[DocumentHit]:
            found = await look(question, k + len(before), scope)
            return [hit for hit in found if not any(hit.text in text for text in before)][:k]

        async with self._places.one():
            if not self.quotes_a_line(request):
                return await unused(request.query, k, scope)
            # A line for each of the message's questions, or the best one for the whole message.
            parts = questions_of(request.query)[1:]
            apart = [await unused(each, 1, _scope(request)) for each in parts]
            lines = list({hit.text: hit for found in apart for hit in found}.values())
            return lines if len(lines) > 1 else await unused(request.query, 1, scope)

    async def _closest(
        self, request: GenerationRequest, said: DocumentHit | None
    ) -> Sequence[Source]:
        """The nearest passages, for people to check an answer.

        Two are from the document that the chat is about, if it is about one.
        """
        query = request.query
        if not self.asks(request) or request.raw or asks_nothing(query):
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
        for message in reversed(request.messages) if self.asks(request) else ():
            if message.role == "assistant" and message.content not in ("", NO_ANSWER, MARK):
                reply = message.content[-control.MAX_QUERY :]
                return await self.documents.said(reply, _scope(request))
        return None

    def rows(self, request: GenerationRequest, hits: Sequence[Hit], limit: int) -> Retrieved:
        """One row per passage."""
        room = room_for_document(self.engine.model.context, len(request.conversation), limit)
        rows, kept = document_rows(
            self.tokenizer,
            hits,
            room,
            raw=request.raw,
            quotes=self.answers.quotes,
            begins=request.begins,
        )
        for number, hit in enumerate(kept):
            if isinstance(hit, PublicHit):
                rows[number] = replace(rows[number], kv=hit.kv)
        every, slope = self.rescore_every, self.slope
        again = rescoring(self.embedder, self.tokenizer, request.query, rows, every, slope)
        sources, passages = [_source(hit) for hit in kept], _digests(kept)
        return Retrieved(rows, sources, again, answers=bool(kept), passages=passages)

    def without(self, request: GenerationRequest) -> Row:
        """The row before a request's conversation if nothing is found."""
        if self._style(request) is Answers.WORDS and self.asks(request):
            return nothing_found(self.tokenizer, request.begins)
        return bare_row(
            self.tokenizer, raw=request.raw, quotes=self.answers.quotes, begins=request.begins
        )

    def _in_one_row(
        self, request: GenerationRequest, hits: Sequence[DocumentHit], limit: int
    ) -> Retrieved:
        """All passages in one row: numbered for a model that writes, or lines that are quoted."""
        if not hits:
            return Retrieved([self.without(request)], [])
        if self.quotes_a_line(request):
            lines = [quoted(hit) for hit in hits]
            whole = replace(lines[0], text=" ".join(line.text for line in lines))
            found = self.rows(request, [whole], limit)
            sources = [_source(line) for line in lines if found.sources]
            return replace(found, sources=sources, passages=_digests(lines))
        room = room_for_document(self.engine.model.context, len(request.conversation), limit)
        first = first_number(Role.DEVICE, self.passages(request))
        row, kept = context_row(self.tokenizer, hits, room, first, request.begins)
        sources = [replace(_source(hit), citation=n) for n, hit in enumerate(kept, first)]
        return Retrieved([row], sources, answers=bool(kept), passages=_digests(kept))

    async def _fetch(self, request: GenerationRequest) -> Sequence[PublicHit]:
        """The cloud's documents, if the mode fetches them."""
        if request.private or not request.mode.fetches:
            return []
        model, with_kv = self.engine.model, request.mode.fetches_kv
        asked = control.Fetch(
            query=request.asked,
            top_k=self.passages(request),
            raw=request.raw,
            weights=model.weights if with_kv and model.kv is not None else None,
        )
        return await fetch(self.link, request.id, asked, self.tokenizer, model)

    def _concatenated(
        self, request: GenerationRequest, hits: Sequence[Hit], limit: int
    ) -> Retrieved:
        """Context aggregation: all documents before the question, in one row."""
        room = room_for_document(self.engine.model.context, len(request.conversation), limit)
        while hits:
            text = "\n\n".join(hit.text for hit in hits)
            tokens = self.tokenizer.document_row(text, raw=request.raw, begins=request.begins)
            if len(tokens) <= room:
                quoting = self.answers.quotes and not request.raw
                quotes = quotes_of(self.tokenizer, [h.text for h in hits]) if quoting else ()
                row = Row(tuple(tokens), hits[0].relevance, quotes=quotes)
                sources, passages = [_source(hit) for hit in hits], _digests(hits)
                return Retrieved([row], sources, answers=True, passages=passages)
            hits = hits[:-1]
        return Retrieved([self.without(request)], [])


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
