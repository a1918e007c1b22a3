"""A model that a server runs: its likeliest tokens, as the server streams them.

A row is a list of tokens here. While the engine's text is what the server's stream has written, a
step takes its positions from the stream and sends no request. If the text differs, after a
correction, a new stream begins there; the server still has what it computed up to that point.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import torch

from dragon.errors import ModelServerError, PreemptedError
from dragon.inference.backends.backend import never
from dragon.inference.backends.model_server import discovery
from dragon.inference.backends.model_server.continuation import Continuation
from dragon.inference.backends.model_server.dialect import Position
from dragon.inference.backends.model_server.endpoint import ServerClient
from dragon.inference.backends.slots import Slots
from dragon.inference.tokenizer import Tokenizer
from dragon.localizable import localizable

# Rows of an answer if the server has fewer slots; answers beyond the server's slots wait.
_LEAST_SLOTS = 4
# How often a step checks whether it is still wanted.
_LOOK_S = 0.05
# After this long without a token, check whether the server is still there.
SILENCE_S = 10.0
# It may be there, but busy with a long prompt or with other requests.
_LONGEST_S = 300.0


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
        """Cancel the stream."""
        if self.stream is not None:
            self.stream.cancel()
            self.before, self.stream = self.stream, None


class RowSlots(Slots):
    """Slots that end their rows' streams on release."""

    def __init__(self, rows: Sequence[ServerRow]) -> None:
        super().__init__(len(rows))
        self._rows = rows

    def release(self, slots: list[int]) -> None:
        """Give slots back."""
        for slot in slots:
            self._rows[slot].end()
        super().release(slots)


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
        self.name = self._dialect.model.rpartition("/")[2].removesuffix(".gguf")
        self.vocab_size = tokenizer.vocab_size
        self.context = self._dialect.context
        self.ends = tokenizer.end_ids
        self._rows = [ServerRow() for _ in range(max(_LEAST_SLOTS, self._dialect.slots))]
        self.cache = RowSlots(self._rows)
        self._changed = threading.Condition()

    @property
    def weights(self) -> str:
        """The server's name of the model, which says no more about it."""
        return self._dialect.model

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        """Do nothing: the server's model is fixed."""

    def feed(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        """As `Backend.feed`; the server reads these tokens with those that follow."""
        for slot, start, row in zip(slots, starts, tokens.tolist(), strict=True):
            self._rows[slot].write(start, row)

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
        """Hang up."""
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
                    self._begin_anew(stream, slot, end)
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

    def _begin_anew(self, stream: Continuation, slot: int, end: int) -> None:
        """Continue with another stream after one ended; raises `ModelServerError` if none can."""
        if not stream.positions:
            said = not stream.spelled and self._dialect.spelled(stream.prompt) is not None
            if not said:
                raise ModelServerError("the model server reports nothing about the next token")
            self._follow(slot, end, spelled=True)
        else:
            self._follow(slot, end)
