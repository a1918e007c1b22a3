"""The cloud's run of an answer: its passages, its rows, and a session that follows the device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import WHOLE_ANSWERS, require_full
from dragon.inference.decoder import Decoder
from dragon.inference.distribution import full_of
from dragon.inference.estimates import Pace
from dragon.inference.run import Run
from dragon.link import control
from dragon.link.registry import Message
from dragon.protocol.messages import Correction, Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.state import Settled
from dragon.sampling.params import Mode
from dragon.sampling.role import Role
from peer.context import Shared
from peer.retrieval import Found


class CloudRun(Run[Message]):
    """Takes part in one answer. It never ends on its own: the device closes its stream.

    Raises `InvalidRequestError` for sampling parameters that the mode does not support, and for a
    mode that the model does not support.
    """

    def __init__(self, shared: Shared, pace: Pace, opening: control.Open) -> None:
        if opening.mode is Mode.SEQUENCEWISE:
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
        """Tokens of the conversation and of the answer."""
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
            self.open(
                found.rows,
                asked.conversation,
                found.rescoring,
                adjustment,
                detailed=asked.details,
            )
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
