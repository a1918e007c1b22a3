"""What the peer does for a stream: its run of an answer, a fetch of documents, or a scoring.

Each has `messages`, the messages to send in order, which raises `DragonError` if the device must
continue without them and frees what it holds when closed; and `tokens`, how many tokens of
questions and answers it has read and written so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from dragon.errors import DragonError, InvalidRequestError
from dragon.inference import scoring
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import WHOLE_ANSWERS, require_full
from dragon.inference.decoder import Decoder, Decoding
from dragon.inference.distribution import full_of
from dragon.inference.estimates import Pace
from dragon.inference.rows import Row
from dragon.inference.run import Run
from dragon.inference.scoring import CREDIT, CloudScore
from dragon.link import bodies, control
from dragon.link.registry import Message
from dragon.protocol.messages import Correction, Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.state import Settled
from dragon.retrieval.prompt_rows import document_rows
from dragon.sampling.role import Role
from peer.context import Shared
from peer.retrieval import Found

_PATIENCE_S = 60.0  # with a device that takes no scores


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
        """Handle a message of the device's session."""
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


class CloudFetch:
    """Finds documents and sends them, as text or with their KV in bfloat16.

    The device then answers alone: these are the baselines DRCG/Text and DRCG/KV.
    """

    def __init__(self, shared: Shared, asked: control.Fetch) -> None:
        self._shared = shared
        self._asked = asked

    @property
    def tokens(self) -> int:
        """0: a search reads no tokens."""
        return 0

    async def messages(self) -> AsyncGenerator[Message, None]:
        """The documents, then their KV. Raises `InvalidRequestError` for KV of another model."""
        asked, shared = self._asked, self._shared
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
        documents = tuple(
            control.PublicDocument(
                id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=0.0
            )
            for hit in kept
        )
        yield control.Fetched(documents=documents)
        if asked.weights is not None:
            for row in rows[: len(kept)]:
                for piece in bodies.pieces(await self._kv(row)):
                    yield piece

    async def _kv(self, row: Row) -> bytes:
        """The KV of a row, packed; waits for a slot, as an answer does."""
        engine = self._shared.engine
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
        """The device has room for one more distribution."""
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
