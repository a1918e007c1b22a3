"""The cloud's part in one answer: documents, rows, a session that follows the device."""

from __future__ import annotations

import asyncio
import logging

from dragon.errors import ContextLengthError, DragonError
from dragon.inference.decoder import Decoder
from dragon.inference.driver import Driver
from dragon.inference.logprobs import Question
from dragon.link import control
from dragon.link.registry import Message
from dragon.protocol.committed_text import Settled
from dragon.protocol.messages import Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from peer.context import Channel, Shared
from peer.logprobs import CloudDetails

log = logging.getLogger(__name__)


class CloudAnswer:
    """The cloud's part in one answer: documents, rows, a session that follows the device."""

    def __init__(
        self, shared: Shared, channel: Channel, stream: int, opening: control.Open
    ) -> None:
        self._shared = shared
        self._channel = channel
        self._stream = stream
        self._opening = opening
        self._decoder: Decoder | None = None
        self._opened: asyncio.Task[None] | None = None
        self._details = None if opening.details is None else CloudDetails(opening.details)
        sampling = Sampling(opening.temperature, opening.top_p, opening.seed, opening.stream)
        self._adjustment = opening.adjustment
        limits = Limits(shared.tokenizer.end_ids, opening.max_tokens)
        self._session = session_of(
            Start(opening.mode, sampling, limits, opening.catch_up, opening.schedule),
            Role.CLOUD,
            channel.pace,
            joint=opening.joint,
            committed=opening.committed,
        )
        self._driver = Driver(
            self._session,
            shared.engine,
            channel.pace,
            post=asyncio.get_running_loop().call_soon_threadsafe,
            send=self._send,
            committed=self._committed,
            failed=self._fail,
        )

    def start(self) -> None:
        """Find documents, prefill, say so, and start drafting."""
        self._opened = self._channel.start(self._begin())

    async def _begin(self) -> None:
        opening, shared = self._opening, self._shared
        try:
            prompt = len(opening.conversation)
            found = await shared.retriever.find(opening, prompt, opening.max_tokens)
            self._decoder = decoder = shared.engine.open(
                found.rows,
                opening.conversation,
                found.rescoring,
                self._adjustment,
                detailed=opening.details is not None,
            )
            await asyncio.wrap_future(decoder.prefilled)
        except DragonError as error:
            self._fail(error)
            return
        except Exception:
            log.exception("an answer could not be opened")
            self._fail(DragonError("the cloud peer failed"))
            return
        ready = control.Ready(
            documents=found.documents(decoder.weights.tolist()),
            horizon=decoder.horizon,
        )
        self._session.set_horizon(decoder.horizon)
        self._send(ready)
        self._driver.start(decoder)

    def receive(self, message: SessionMessage) -> None:
        """A message of the device's session."""
        if isinstance(message, Draft):
            self._channel.pace.hear(message)
        self._driver.receive(message)

    def receive_question(self, question: Question) -> None:
        """What the device still has to know about a token."""
        if self._details is not None:
            self._send(self._details.answer(question))

    def close(self) -> None:
        """Free the slots before the next step."""
        self._driver.close()
        if self._opened is not None:
            self._opened.cancel()
        if self._decoder is not None:
            self._shared.engine.close(self._decoder)

    def _committed(self, _: list[int], settled: list[Settled]) -> None:
        if self._details is not None:
            for detail in self._details.of(settled):
                self._send(detail)

    def _send(self, message: Message) -> None:
        self._shared.metrics.sent_bytes.inc(self._channel.send(message, self._stream))

    def _fail(self, error: DragonError) -> None:
        if not isinstance(error, ContextLengthError):
            log.error("answer failed: %s", error.message)
        self._channel.fail(self._stream, error)
