"""Serves streams: finds passages, and then writes an answer, sends documents or scores a text.

Each kind of stream has `messages`, which yields the messages to send in order. It raises
`DragonError` if the device must continue without them, and frees what it holds when closed.
`tokens` counts those of questions and answers so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeVar

from dragon.errors import DragonError, InvalidRequestError
from dragon.inference import scoring, weighting
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import WHOLE_ANSWERS, require_full
from dragon.inference.decoder import Decoder, Decoding
from dragon.inference.distribution import full_of
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.rows import Row, room_for_document
from dragon.inference.run import Run
from dragon.inference.scoring import CREDIT, CloudScore
from dragon.inference.tokenizer import Tokenizer
from dragon.link import bodies, control
from dragon.link.registry import Message
from dragon.protocol.messages import Correction, Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.state import Settled
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.find import SENTENCES, LineReader, around, heading, ranked, to_read
from dragon.retrieval.judge import TextJudge
from dragon.retrieval.lexical import corrected
from dragon.retrieval.prompt_rows import (
    Answers,
    context_row,
    continuing,
    document_rows,
    first_number,
    rescoring,
)
from dragon.retrieval.query_parsing import Query, plain
from dragon.retrieval.relevance import LEAST, PUBLIC_LEAST, Hit
from dragon.sampling.role import Role
from peer.context import Shared
from peer.corpus.store import Corpus

T = TypeVar("T")

_PATIENCE_S = 60.0  # with a device that takes no scores

ABOUT = 0.45
"""The least cosine of a public passage that answers a question.

In a corpus about everything, something always shares a word with a question meant for the user's
own documents. bench/LOG.md has what that costs and saves.
"""


@dataclass(frozen=True)
class Found:
    """The cloud's rows, the passages in them, and how many shards were left `unsearched`."""

    rows: Sequence[Row]
    hits: Sequence[Hit]
    rescoring: weighting.Rescoring | None
    unsearched: int = 0

    def documents(self, weights: Sequence[float]) -> tuple[control.PublicDocument, ...]:
        """The passages in the form sent to the device; `weights` are those of the rows."""
        shares = weighting.shared(weights, len(self.hits))
        return tuple(map(_document, self.hits, shares))


def _document(hit: Hit, weight: float = 0.0) -> control.PublicDocument:
    return control.PublicDocument(
        id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=weight
    )


@dataclass
class Retriever:
    """Embeds a question, looks it up in the corpus and judges what it finds.

    All of that happens on the engine's thread, which owns the models; only a corpus that is `far`
    is searched in another thread, while the engine continues. `answers` says what rows consist of:
    sentences that answer, or passages around them.
    """

    engine: Engine
    embedder: Embedder
    judge: TextJudge
    corpus: Corpus
    tokenizer: Tokenizer
    answers: Answers

    async def find(self, asked: control.Asking, prompt: int, max_tokens: int) -> Found:
        """Passages as rows, only those that leave room for prompt and answer."""
        with self.corpus.counted() as without:
            found = await self._rows(asked, prompt, max_tokens)
        return replace(found, unsearched=len(without))

    async def _rows(self, asked: control.Asking, prompt: int, max_tokens: int) -> Found:
        room = room_for_document(self.engine.model.context, prompt, max_tokens)
        if self.answers.on(raw=asked.raw) is Answers.WORDS and asked.top_k:
            passages = await self._found(self._passages, asked.query, asked.top_k)
            first = first_number(Role.CLOUD, asked.top_k)
            row, kept = context_row(self.tokenizer, passages, room, first, asked.begins)
            return Found([row], kept, None)
        premise = self.tokenizer.decode(asked.premise)
        hits = await self.search(asked.query, asked.top_k, judged=asked.judged, premise=premise)
        if self.answers.on(raw=asked.raw) is Answers.LINES:
            hits = hits[:1]
        if hits and self.answers.continues(raw=asked.raw):
            hits = await self._urgent(
                lambda: continuing(self.embedder, asked.query, hits, asked.slope)
            )
        rows, kept = document_rows(
            self.tokenizer,
            hits,
            room,
            raw=asked.raw,
            quotes=self.answers.quotes,
            begins=asked.begins,
            premise=asked.premise,
        )
        every, slope = asked.rescore_every, asked.slope
        again = rescoring(self.embedder, self.tokenizer, asked.query, rows, every, slope)
        return Found(rows, kept, again)

    async def search(
        self, query: str, top_k: int, *, judged: bool = True, premise: str = ""
    ) -> list[Hit]:
        """The passages nearest to a question, at most as many as there are slots.

        If `judged`, only those that answer it, else any that may continue a text. The `premise`
        says what the question means: "Erik moved to Chile." what "the country Erik moved to" is.
        """
        search = partial(self._search, judged=judged, premise=premise)
        return await self._found(search, query, top_k)

    async def switch(self, corpus: Corpus) -> None:
        """Search another version of the corpus from now on, and close the previous one.

        Runs on the engine's thread, so between two searches of a corpus that is not `far`. One that
        is far ends its searches itself. Answers in progress keep their passages.
        """

        def switched() -> Corpus:
            before, self.corpus = self.corpus, corpus
            return before

        before = await self._urgent(switched)
        before.close()

    async def _found(
        self, search: Callable[[Corpus, str, int], list[Hit]], query: str, top_k: int
    ) -> list[Hit]:
        if not top_k or not query:
            return []
        # In two steps: the dictionary that it may read would block the engine's thread.
        near = await self._looked_up(lambda corpus: corpus.spelled(query))
        if near:
            query = await asyncio.to_thread(corrected, query, near)
        return await self._looked_up(lambda corpus: search(corpus, query, top_k))

    async def _looked_up(self, job: Callable[[Corpus], T]) -> T:
        """Look up in one version of the corpus, though another may take its place meanwhile."""
        if self.corpus.far:
            return await asyncio.to_thread(job, self.corpus)
        return await self._urgent(lambda: job(self.corpus))

    async def _urgent(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.engine.submit_urgent(job))

    def _computed(self, job: Callable[[], T]) -> T:
        """Run a model's job on the engine's thread, where look-ups run unless the corpus is far."""
        return self.engine.submit_urgent(job).result() if self.corpus.far else job()

    def _search(
        self, corpus: Corpus, message: str, top_k: int, *, judged: bool, premise: str
    ) -> list[Hit]:
        k = min(top_k, self.engine.model.cache.slots)
        query, best = self._ranked(corpus, f"{premise} {message}".strip(), k)
        if premise:
            query = replace(query, questions=(plain(message),))
        return self._judged(corpus, query, best, premise)[:k] if judged else best[:k]

    def _ranked(self, corpus: Corpus, message: str, k: int) -> tuple[Query, list[Hit]]:
        """The query of a message, and candidates; a title says what a whole document is about."""
        query = self._computed(lambda: Query.of(message, self.embedder))
        found = [
            replace(hit, about=hit.title) for hit in corpus.search(query.text, query.vector, k)
        ]
        return query, ranked(query.questions, query.vectors, found)

    def _judged(
        self, corpus: Corpus, query: Query, best: Sequence[Hit], premise: str = ""
    ) -> list[Hit]:
        """The lines that answer, best first; after a premise, less sure ones count, too."""
        about = [
            hit
            for hit in best
            if hit.vector is not None and float(max(query.vectors @ hit.vector)) >= ABOUT
        ]
        best = to_read(query.questions, about)
        near = {hit.id: corpus.near(hit) for hit in best}
        reader = LineReader(self.judge, self.embedder)
        least = LEAST if premise else PUBLIC_LEAST
        return self._computed(
            lambda: reader.answering(query.questions, best, near, least, premise=premise)
        )

    def _passages(self, corpus: Corpus, message: str, top_k: int) -> list[Hit]:
        """Passages of a few hundred tokens that answer a message, best first."""
        hits = self._judged(corpus, *self._ranked(corpus, message, SENTENCES * top_k))
        near = {hit.id: corpus.near(hit) for hit in hits}
        return [
            replace(hit, text=" ".join(each.text for each in sentences), context=under)
            for hit, sentences in around(hits, near, top_k)
            for under in [heading(sentences[0], near[hit.id]).removeprefix(hit.title)]
        ]


# The three kinds of streams.


class CloudRun(Run[Message]):
    """Takes part in one answer, with passages and rows of its own, following the device.

    It never ends on its own: the device closes its stream.

    Raises `InvalidRequestError` for sampling parameters that the mode does not support, and for a
    mode that the model does not support.
    """

    def __init__(self, shared: Shared, pace: Pace, opening: control.Open) -> None:
        if opening.mode.needs_full_distributions:
            require_full(shared.engine.model, *WHOLE_ANSWERS)
        limits = Limits(shared.tokenizer.end_ids, opening.max_tokens)
        catch_up = opening.catch_up and shared.engine.model.parallel
        session = session_of(
            Start(opening.mode, opening.sampling, limits, catch_up, opening.schedule),
            Role.CLOUD,
            pace,
            joint=opening.joint,
            committed=opening.committed,
        )
        super().__init__(session, shared.engine, pace)
        self._retriever = shared.retriever
        self._tokenizer = shared.tokenizer
        self._opening = opening
        self._found: Found | None = None

    @property
    def tokens(self) -> int:
        return len(self._opening.conversation) + len(self.session.committed)

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Retrieve and prefill, report that, and then draft."""
        asked = self._opening
        try:
            prompt = len(asked.conversation)
            self._found = found = await self._retriever.find(asked, prompt, asked.max_tokens)
            adjustment = await asyncio.to_thread(
                Adjustment.asked, asked.sampling, asked.conversation, self._tokenizer
            )
            decoding = Decoding(found.rescoring, adjustment, detailed=asked.details)
            self.open(found.rows, asked.conversation, decoding)
            async for message in self:
                yield message
        finally:
            self.close()

    def receive(self, message: SessionMessage) -> None:
        if isinstance(message, Draft | Correction):
            self._pace.observe_remote(message)
        super().receive(message)

    def _begin(self, decoder: Decoder) -> None:
        assert self._found is not None, "retrieved before the prefill"
        ready = control.Ready(
            documents=self._found.documents(decoder.weights.tolist()),
            horizon=decoder.horizon,
            log_h=decoder.weighting.first.log_h,
            unsearched=self._found.unsearched,
        )
        self.session.set_horizon(decoder.horizon)
        self._items.put_nowait(ready)

    def _send(self, message: SessionMessage) -> None:
        if isinstance(message, Draft) and self._opening.details:
            message = replace(message, shares=tuple(full_of(message.side).shares(message.token)))
        self._items.put_nowait(message)

    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        """Do nothing: the device reports the text."""


@dataclass(frozen=True)
class CloudFetch:
    """Sends documents as text or KV, for the baselines in which the device answers alone."""

    shared: Shared
    asked: control.Fetch
    tokens: ClassVar[int] = 0  # a search reads none

    async def messages(self) -> AsyncGenerator[Message, None]:
        """The documents, then their KV. Raises `InvalidRequestError` for KV of another model."""
        asked, shared = self.asked, self.shared
        model = shared.engine.model
        weights = None if model.kv is None else model.weights
        if asked.weights not in (None, weights):
            raise InvalidRequestError(
                "document KV fits one model only: set DRAGON_MODEL and DRAGON_DTYPE alike on both"
            )
        hits = await shared.retriever.search(asked.query, asked.top_k)
        # A row as long as the context cannot be computed.
        rows, kept = document_rows(
            shared.tokenizer, hits, model.context - 1, raw=asked.raw, quotes=False
        )
        yield control.Fetched(documents=tuple(map(_document, kept)))
        if asked.weights is not None:
            for row in rows[: len(kept)]:
                for piece in bodies.pieces(await self._kv(row)):
                    yield piece

    async def _kv(self, row: Row) -> bytes:
        """The KV of a row, packed; waits for a slot, as an answer does."""
        engine = self.shared.engine
        assert engine.model.kv is not None
        decoder = engine.open([row], (), limit=0)
        try:
            await asyncio.wrap_future(decoder.prefilled)
            read = partial(engine.model.kv.read, decoder.slots[0], len(row.tokens))
            return (await asyncio.wrap_future(engine.submit_urgent(read))).pack()
        finally:
            engine.close(decoder)


class CloudScoring:
    """Scores a given text: sends full distributions, as the device has room for them."""

    def __init__(self, shared: Shared, asked: control.ScoreText) -> None:
        self._shared = shared
        self._asked = asked
        self._credit = asyncio.Semaphore(CREDIT)

    @property
    def tokens(self) -> int:
        return len(self._asked.conversation) + len(self._asked.text)

    def taken(self) -> None:
        self._credit.release()

    async def _wait_for_room(self) -> None:
        """Wait for the device, but not for long: slots are not held for one that takes nothing."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._credit.acquire()
        except TimeoutError:
            raise DragonError("the device takes no more scores") from None

    async def messages(self) -> AsyncGenerator[Message, None]:
        """The documents, then the distribution of each position, as the device has room."""
        asked, engine = self._asked, self._shared.engine
        require_full(engine.model, "scoring a text", "leave out echo or logprobs")
        found = await self._shared.retriever.find(asked, asked.prompt, asked.max_tokens)
        adjustment = Adjustment.asked(asked.sampling, asked.conversation, self._shared.tokenizer)
        decoding = Decoding(found.rescoring, adjustment, detailed=True)
        decoder = engine.open(found.rows, asked.conversation, decoding, limit=len(asked.text))
        try:
            decoder.require(len(asked.text))
            await asyncio.wrap_future(decoder.prefilled)
            documents = found.documents(decoder.weights.tolist())
            yield control.Scoring(documents=documents, rows=len(found.rows))
            text = iter(asked.text)
            size = scoring.forward_size(engine.model, len(found.rows))
            for work in scoring.works(asked.text, size):
                for side in await asyncio.wrap_future(scoring.run(engine, decoder, work)):
                    await self._wait_for_room()
                    score = CloudScore.of(side, next(text)).pack()
                    for piece in bodies.pieces(score):
                        yield piece
        finally:
            engine.close(decoder)


Serving = CloudRun | CloudFetch | CloudScoring
