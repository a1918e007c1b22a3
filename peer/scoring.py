"""The cloud's part in scoring given tokens: its full distributions, as fast as they are taken."""

from __future__ import annotations

import asyncio

from dragon.errors import DragonError
from dragon.inference import scoring
from dragon.inference.scoring import CREDIT, CloudScore
from dragon.link import bulk, control
from peer.context import Channel, Shared
from peer.task import CloudTask

_PATIENCE_S = 60.0


class CloudScoring(CloudTask):
    """Scores one text."""

    def __init__(
        self, shared: Shared, channel: Channel, stream: int, asked: control.ScoreText
    ) -> None:
        super().__init__(shared, channel, stream)
        self._asked = asked
        self._adjustment = asked.adjustment
        self._credit = asyncio.Semaphore(CREDIT)

    def taken(self) -> None:
        """The device has room for one more distribution."""
        self._credit.release()

    async def _wait_for_room(self) -> None:
        """Slots are not held for a device that takes nothing."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._credit.acquire()
        except TimeoutError:
            raise DragonError("the device takes no more scores") from None

    async def _run(self) -> None:
        asked, engine = self._asked, self._shared.engine
        found = await self._shared.retriever.find(asked, asked.prompt, asked.max_tokens)
        decoder = engine.open(
            found.rows, asked.conversation, found.rescoring, self._adjustment, detailed=True
        )
        try:
            decoder.require(len(asked.text))
            await asyncio.wrap_future(decoder.prefilled)
            documents = found.documents(decoder.weights.tolist())
            self._send(control.Scoring(documents=documents))
            text = iter(asked.text)
            size = scoring.forward_size(engine.model, len(found.rows))
            for work in scoring.works(asked.text, size):
                for side in await asyncio.wrap_future(scoring.run(engine, decoder, work)):
                    await self._wait_for_room()
                    for piece in bulk.pieces(CloudScore.of(side, next(text)).pack()):
                        self._send(piece)
        finally:
            engine.close(decoder)
