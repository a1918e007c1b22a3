"""A model that a server runs: its likeliest tokens, as the server streams them.

A row is a list of tokens here. While the engine's text is what the server's stream has written, a
step takes its positions from the stream and sends no request. If the text differs, after a
correction, a new stream begins there; the server still has what it computed up to that point.
"""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Callable, Sequence

import orjson
import torch

from dragon.errors import ModelServerError, PreemptedError
from dragon.inference.backends.backend import never
from dragon.inference.backends.model_server import discovery
from dragon.inference.backends.model_server.dialects import Dialect, Position, UntoldError
from dragon.inference.backends.model_server.endpoint import (
    BusyError,
    LostError,
    OpenRequest,
    Patience,
    ServerClient,
    lost,
)
from dragon.inference.backends.slots import Slots
from dragon.inference.tokenizer import Tokenizer
from dragon.localizable import localizable

log = logging.getLogger(__name__)

AHEAD = 64
"""Tokens per request: as far as a side drafts ahead."""
_PATIENCE_S = 5.0
# A server that does not notice that the client leaves is abandoned after this long.
_LEAVING_S = 1.0
_DATA = b"data:"
# Rows of an answer if the server has fewer slots; answers beyond the server's slots wait.
_LEAST_SLOTS = 4
# How often a step checks whether it is still wanted.
_LOOK_S = 0.05
# After this long without a token, check whether the server is still there.
SILENCE_S = 10.0
# It may be there, but busy with a long prompt or with other requests.
_LONGEST_S = 300.0


class Continuation:
    """A stream of what a server writes after `prompt`, read on its own thread.

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
        self._after = after if dialect.one_place else None
        self._thread = threading.Thread(target=self._run, name="model server", daemon=True)
        self._thread.start()

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
        self._thread.join(_LEAVING_S)
        if self._thread.is_alive() and self._exchange is not None:
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
        with self._changed:
            self.error, self.ended = error, True
            self._changed.notify_all()

    def _read_all(self) -> None:
        """Read to the end, in as many requests as needed."""
        if self._after is not None:
            self._after.leave()
            self._after = None
        patience = Patience(_PATIENCE_S)
        while not self._cancelled.is_set():
            before = len(self.positions)
            try:
                self._read(before)
                return
            except UntoldError:
                return
            except (LostError, BusyError) as error:
                if self._cancelled.is_set():
                    return
                if len(self.positions) > before:
                    patience = Patience(_PATIENCE_S)
                log.warning("%s: %s", self._endpoint.url, error.message)
                self._cancelled.wait(patience.next(error))

    def _read(self, before: int) -> None:
        """Make one request, for what is not here yet: all but the `before` first positions."""
        drawn = [position.drawn for position in self.positions]
        text = [*self.prompt, *(token for token in drawn if token is not None)]
        if before == AHEAD or None in drawn or len(text) > self._dialect.context:
            return
        ahead, spelled = AHEAD - before, self._dialect.spelled
        body = spelled(text) if self.spelled else self._dialect.body(text, ahead)
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
                deadline = time.monotonic() + _LEAVING_S
                while response.readline() and time.monotonic() < deadline:
                    pass  # until the server has hung up
                return
            if not line.startswith(_DATA):
                continue
            data = line[len(_DATA) :].strip()
            if data == b"[DONE]":
                return
            event = orjson.loads(data)
            if error := event.get("error"):
                why = error.get("message", error) if isinstance(error, dict) else error
                raise ModelServerError(
                    localizable("server.failed", "the model server failed: {why}", why=str(why))
                )
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


class ServerRow:
    """One text, the stream that continues it, and the previous stream."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.stream: Continuation | None = None
        self.before: Continuation | None = None

    def write(self, start: int, tokens: Sequence[int]) -> None:
        """Continue with these tokens after the first `start`."""
        self.text[start:] = tokens
        if self.stream is not None:
            begun = self.stream.prompt[start:]
            if list(tokens[: len(begun)]) != begun:
                self.end()

    def end(self) -> None:
        if self.stream is not None:
            self.stream.cancel()
            self.before, self.stream = self.stream, None


class ModelServer:
    """A server's slots. Only the engine's thread runs it."""

    full = False
    parallel = False
    kv = None
    quotes = False

    def __init__(
        self, url: str, tokenizer: Tokenizer, *, key: str | None = None, name: str | None = None
    ) -> None:
        """Detect what the server speaks. Raises `ConfigurationError` as `discovery.find` does."""
        self._endpoint = ServerClient(url, key)
        self._dialect = discovery.find(self._endpoint, tokenizer, name)
        self.weights = self._dialect.model  # its name, which says no more about it
        self.name = self.weights.rpartition("/")[2].removesuffix(".gguf")
        self.vocab_size = tokenizer.vocab_size
        self.context = self._dialect.context
        self.ends = tokenizer.end_ids
        self._rows = [ServerRow() for _ in range(max(_LEAST_SLOTS, self._dialect.slots))]
        self.cache = Slots(len(self._rows), ended=lambda slot: self._rows[slot].end())
        self._changed = threading.Condition()

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        """There is no adapter."""

    def forward(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        """As `Backend.forward`; raises `ModelServerError` if the server fails."""
        logits = torch.full((len(slots), outputs, self.vocab_size), -torch.inf)
        length = tokens.shape[1]
        for slot, start, row in zip(slots, starts, tokens.tolist(), strict=True):
            self._rows[slot].write(start, row)
        try:
            for place in range(outputs):
                ends = [start + length - outputs + place + 1 for start in starts]
                for slot, end in zip(slots, ends, strict=True):
                    self._follow(slot, end)
                for row, (slot, end) in enumerate(zip(slots, ends, strict=True)):
                    self._name(self._wait(slot, end, cancelled), logits[row, place])
        except PreemptedError:
            for slot, start in zip(slots, starts, strict=True):
                del self._rows[slot].text[start:]
            raise
        return logits

    def close(self) -> None:
        for row in self._rows:
            row.end()

    def _follow(self, slot: int, end: int, *, spelled: bool = False) -> None:
        """Ensure that a stream continues a row's first `end` tokens."""
        row = self._rows[slot]
        if row.stream is not None:
            with self._changed:
                if row.stream.follows(row.text, end) and not spelled:
                    return
            row.end()
        row.stream = Continuation(
            self._endpoint,
            self._dialect,
            row.text[:end],
            self._changed,
            after=row.before,
            spelled=spelled,
        )

    def _wait(self, slot: int, end: int, cancelled: Callable[[], bool]) -> Position:
        """Wait for the stream's position after the row's first `end` tokens."""
        began = time.monotonic()
        asked = began
        while True:
            stream = self._rows[slot].stream
            assert stream is not None
            with self._changed:
                if (position := stream.at(end)) is not None:
                    return position
                if stream.error is not None:
                    raise stream.error
                if stream.ended:
                    spelled = not stream.positions
                    if spelled and (stream.spelled or not self._dialect.spelled(stream.prompt)):
                        raise ModelServerError(
                            "the model server reports nothing about the next token"
                        )
                    self._follow(slot, end, spelled=spelled)
                else:
                    self._changed.wait(_LOOK_S)
            if cancelled():
                raise PreemptedError("the step is no longer wanted")
            now = time.monotonic()
            if now - max(stream.heard, asked) > SILENCE_S:
                asked = now
                if now - began > _LONGEST_S or not self._endpoint.alive():
                    self._rows[slot].end()
                    raise ModelServerError(
                        localizable("server.silent", "the model server does not answer any more")
                    )

    def _name(self, position: Position, logits: torch.Tensor) -> None:
        """Fill in the logits, float32 [V], of the named tokens; a padded model may name others."""
        named = zip(position.tokens, position.logprobs, strict=True)
        known = {token: value for token, value in named if 0 <= token < self.vocab_size}
        if not known:
            raise ModelServerError("the model server names no token of this vocabulary")
        logits[list(known)] = torch.tensor(list(known.values()))
