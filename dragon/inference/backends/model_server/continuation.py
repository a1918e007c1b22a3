"""A completion that a model server streams: what it says about one position after another."""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Sequence

import orjson

from dragon.errors import ModelServerError
from dragon.inference.backends.model_server.dialect import Dialect, Position, UntoldError
from dragon.inference.backends.model_server.endpoint import (
    BusyError,
    LostError,
    OpenRequest,
    Patience,
    ServerClient,
    lost,
)
from dragon.localizable import localizable

log = logging.getLogger(__name__)

AHEAD = 64
"""Tokens per request: as far as a side drafts ahead."""
_PATIENCE_S = 5.0
# A server that does not notice the client's leaving is abandoned after this long.
_LEAVING_S = 1.0
_DATA = b"data:"


class Continuation:
    """What a server writes after `prompt`, read on its own thread.

    `changed` is notified of every position and of the end; other threads must hold it to read from
    here. After a broken connection or from a busy server, it asks again for some seconds, with the
    text so far. `spelled` asks for one position that the server would not report. If a text has one
    place at the server, it begins once the stream `after` has left that place.
    """

    def __init__(
        self,
        endpoint: ServerClient,
        dialect: Dialect,
        prompt: Sequence[int],
        changed: threading.Condition,
        *,
        after: Continuation | None = None,
        spelled: bool = False,
    ) -> None:
        self.prompt = list(prompt)
        self.positions: list[Position] = []
        self.error: ModelServerError | None = None
        self.ended = False
        self.heard = time.monotonic()
        self.spelled = spelled
        self._endpoint = endpoint
        self._dialect = dialect
        self._changed = changed
        self._exchange: OpenRequest | None = None
        self._cancelled = threading.Event()
        self._gone = threading.Event()
        self._after = after if dialect.one_place else None
        threading.Thread(target=self._run, name="model server", daemon=True).start()

    def follows(self, text: Sequence[int], end: int) -> bool:
        """Whether `text[:end]`, which begins with the prompt, matches what it has written.

        The position after it is then already here, or comes next.
        """
        count = end - len(self.prompt)
        if count < 0 or count > len(self.positions) or (self.ended and self.at(end) is None):
            return False
        drawn = [position.drawn for position in self.positions[:count]]
        return drawn == list(text[len(self.prompt) : end])

    def at(self, end: int) -> Position | None:
        """The position after the text's first `end` tokens, if it is here yet."""
        count = end - len(self.prompt)
        return self.positions[count] if count < len(self.positions) else None

    def cancel(self) -> None:
        """Hang up; the server notices at the next token it writes."""
        self._cancelled.set()
        with self._changed:
            if self._exchange is not None and self._dialect.one_place:
                self._exchange.want_no_more()
            elif self._exchange is not None:
                self._exchange.hang_up()

    def leave(self) -> None:
        """Wait briefly until a cancelled stream has left the server."""
        if not self._gone.wait(_LEAVING_S) and self._exchange is not None:
            self._exchange.hang_up()

    # On its own thread.

    def _run(self) -> None:
        error = None
        try:
            self._read_all()
        except ModelServerError as failed:
            error = failed
        except Exception as failed:
            log.exception("a model server's completion could not be read")
            error = ModelServerError(f"the model server cannot be understood: {failed!r}")
        self._gone.set()
        with self._changed:
            self.error, self.ended = error, True
            self._changed.notify_all()

    def _read_all(self) -> None:
        """Read to the end, in as many requests as needed."""
        if self._after is not None:
            self._after.leave()
            self._after = None
        patience, told = Patience(_PATIENCE_S), 0
        while not self._cancelled.is_set():
            try:
                self._read()
                return
            except UntoldError:
                return
            except (LostError, BusyError) as error:
                if self._cancelled.is_set():
                    return
                if len(self.positions) > told:
                    patience, told = Patience(_PATIENCE_S), len(self.positions)
                log.warning("%s: %s", self._endpoint.url, error.message)
                self._cancelled.wait(patience.next(error))

    def _read(self) -> None:
        """Make one request, for what is not here yet."""
        before = len(self.positions)
        drawn = [position.drawn for position in self.positions]
        text = [*self.prompt, *(token for token in drawn if token is not None)]
        if before == AHEAD or None in drawn or len(text) > self._dialect.context:
            return
        body = (
            self._dialect.spelled(text)
            if self.spelled
            else self._dialect.body(text, AHEAD - before)
        )
        exchange = self._endpoint.connect()
        try:
            with self._changed:
                if self._cancelled.is_set():
                    return
                self._exchange = exchange
            exchange.socket.settimeout(None)  # whoever waits for a position checks the time
            response = self._endpoint.send(exchange, "POST", self._dialect.path, body)
            try:
                self._take_all(response, before)
            except (OSError, http.client.HTTPException) as error:
                raise lost(error) from error
        finally:
            exchange.connection.close()

    def _take_all(self, response: http.client.HTTPResponse, before: int) -> None:
        """Read the events of a response, up to its last."""
        for line in response:
            if self._cancelled.is_set():
                self._leave(response)
                return
            if not line.startswith(_DATA):
                continue
            data = line[len(_DATA) :].strip()
            if data == b"[DONE]":
                return
            event = orjson.loads(data)
            positions, last = self._dialect.positions(event, len(self.positions) - before)
            with self._changed:
                self.positions += positions
                self.heard = time.monotonic()
                self._changed.notify_all()
            if last:
                return
        raise LostError(
            localizable("server.ended", "the model server ended its answer in the middle")
        )

    def _leave(self, response: http.client.HTTPResponse) -> None:
        """Read until the server has hung up."""
        deadline = time.monotonic() + _LEAVING_S
        while response.readline() and time.monotonic() < deadline:
            pass
