"""The cloud's part in scoring given tokens: its full distributions, under flow control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from dragon.errors import DragonError
from dragon.inference import scoring
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import require_full
from dragon.inference.scoring import CREDIT, CloudScore
from dragon.link import bodies, control
from dragon.link.registry import Message
from peer.context import Shared

_PATIENCE_S = 60.0


class CloudScoring:
    """Scores one text."""

    def __init__(self, shared: Shared, asked: control.ScoreText) -> None:
        self._shared = shared
        self._asked = asked
        self._credit = asyncio.Semaphore(CREDIT)

    @property
    def tokens(self) -> int:
        """Tokens of the conversation and of the text."""
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
        decoder = engine.open(
            found.rows,
            asked.conversation,
            found.rescoring,
            Adjustment.asked(asked.sampling, asked.conversation, self._shared.tokenizer),
            detailed=True,
            limit=len(asked.text),
        )
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
