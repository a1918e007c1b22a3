"""Drives one session: keeps its decoder busy, hands its messages out, brings results back.

Everything here happens on the owner's event loop; `post` is how the engine's thread gets there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dragon.errors import DragonError
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.jobs import Decoded, Outcome, Post, Step
from dragon.protocol.committed_text import Settled
from dragon.protocol.messages import SessionMessage
from dragon.protocol.session import Session

log = logging.getLogger(__name__)


class Driver:
    """Between a session, its decoder, and whoever owns both.

    `activity` counts what has happened, so that a clock can tell a standstill from slow work.
    `send` takes the session's messages in order, `committed` tokens that are final on this side and
    what they were drawn from, `failed` an error after which nothing more comes.
    """

    def __init__(
        self,
        session: Session,
        engine: Engine,
        pace: Pace,
        *,
        post: Post,
        send: Callable[[SessionMessage], None],
        committed: Callable[[list[int], list[Settled]], None],
        failed: Callable[[DragonError], None],
    ) -> None:
        self.session = session
        self._engine = engine
        self._pace = pace
        self._post = post
        self._send = send
        self._committed = committed
        self._failed = failed
        self._decoder: Decoder | None = None
        self._step: Step | None = None
        self._closed = False
        self.activity = 0

    def start(self, decoder: Decoder) -> None:
        """The decoder is prefilled: begin."""
        self._decoder = decoder
        self.advance()

    def receive(self, message: SessionMessage) -> None:
        """A message of the other side."""
        self.activity += 1
        self._guarded(lambda: self.session.receive(message))

    def advance(self) -> None:
        """Carry away what the session has made and give the decoder its next work."""
        if self._closed:
            return
        for message in self.session.take_outbox():
            self._send(message)
        settled = self.session.take_settled()
        if tokens := self.session.take_commits():
            self._committed(tokens, settled)
        if self._closed or self._decoder is None:
            return
        if self._step is not None:
            self._step.stale = self.session.stale
            return
        self.session.window = self._pace.window(self._engine.sharing)
        if (work := self.session.next_work()) is not None:
            self._step = self._engine.run(self._decoder, work, self._done, self._post)

    def close(self) -> None:
        """Nothing more comes out; the step under way is abandoned. The decoder is the owner's."""
        self._closed = True

    def _done(self, outcome: Outcome) -> None:
        step, self._step = self._step, None
        self.activity += 1
        if self._closed:
            return
        if not isinstance(outcome, Decoded):
            self._failed(outcome)
            return
        if outcome.sides and step is not None and step.work.tokens:
            work = step.work
            context = max(step.decoder.bases) + work.keep + len(work.tokens)
            self._pace.decode.add(outcome.microseconds / 1e6, context)
        self._guarded(
            lambda: self.session.complete(
                outcome.sides, outcome.microseconds, outcome.log_likelihood
            )
        )

    def _guarded(self, change: Callable[[], None]) -> None:
        """Change the session and go on; a fault in here ends the answer, never hangs it."""
        try:
            change()
            self.advance()
        except Exception as error:
            log.exception("an answer failed")
            self.close()
            self._failed(DragonError(f"the answer failed: {error}"))
