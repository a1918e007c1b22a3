"""The embedder as a service: texts or token ids in, vectors out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import dropwhile

import numpy as np
import numpy.typing as npt

from app.generation.admission import Threads
from app.generation.prompts import known
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.retrieval.embedder import Embedder

Vectors = npt.NDArray[np.float32]
_INSIDE = b"##"  # begins a token that continues a word
_ROWS = 4  # of a batch at most
_LONGEST = 64  # characters to read per token of a text that is cut
MOST_TOKENS = 300_000
"""The most tokens of all inputs together."""


class EmbeddingService:
    """Embeds for the API. `run_idle` queues an idle job, which waits until answers leave time."""

    def __init__(
        self,
        embedder: Embedder,
        run_idle: Callable[[Callable[[], Vectors]], Future[Vectors]],
        threads: Threads,
    ) -> None:
        self._embedder = embedder
        self._run_idle = run_idle
        self._threads = threads
        self.model_name = embedder.name
        self.context_length = embedder.max_tokens
        self.tokenizer = embedder.tokenizer
        self.dimensions = embedder.dim

    def require(self, dimensions: int | None) -> None:
        """Raises `InvalidRequestError` for any number of dimensions but the embedder's own."""
        if dimensions not in (None, self.dimensions):
            raise InvalidRequestError(
                f"dimensions: {self.model_name} has {self.dimensions}; leave it out",
                param="dimensions",
                code="unsupported_parameter",
            )

    async def embed(self, inputs: Sequence[str | Sequence[int]]) -> tuple[Vectors, int]:
        """Vectors of length 1, float32 [inputs, dim], and how many tokens were read for them.

        If cancelled, it stops after the current job.

        Raises `InvalidRequestError` for an empty input or an unknown token, `ContextLengthError` if
        one is too long, or all of them together.
        """
        rows = await self._threads.run(lambda: [self._row(each) for each in inputs])
        if sum(map(len, rows)) > MOST_TOKENS:
            raise ContextLengthError(f"input: at most {MOST_TOKENS} tokens in total", param="input")
        parts = []
        for batch in self._batches(rows):
            work = partial(self._embedder.embed_tokens, batch)
            parts.append(await asyncio.wrap_future(self._run_idle(work)))
        return np.concatenate(parts), sum(map(len, rows))

    def cut(self, text: str) -> list[int]:
        """The first tokens of a text, as many as fit."""
        room = self.context_length - len(self.tokenizer.framed([]))
        return self.tokenizer.encode(text[: _LONGEST * room])[:room]

    def _batches(self, rows: Sequence[list[int]]) -> Iterator[list[list[int]]]:
        """The rows of each job: a few short ones take no longer than one of full length."""
        batch: list[list[int]] = []
        for row in rows:
            longest = max(map(len, [*batch, row]))
            if len(batch) == _ROWS or (len(batch) + 1) * longest > self.context_length:
                yield batch
                batch = []
            batch.append(row)
        yield batch

    def _row(self, given: str | Sequence[int]) -> list[int]:
        """The ids to embed; given ids may already have special tokens around them."""
        if not given:
            raise InvalidRequestError("input: must not be empty", param="input")
        if isinstance(given, str):
            if (least := self.tokenizer.least_tokens(len(given))) > self.context_length:
                raise self._too_long(f"at least {least}")
            ids = self.tokenizer.encode(given)
        else:
            special = self.tokenizer.framed([])
            ids = known(given, self.tokenizer, self.model_name, "input")
            ids = [token for token in ids if token not in special]
            self._require_own(ids)
        row = self.tokenizer.framed(ids)
        if len(row) > self.context_length:
            raise self._too_long(str(len(row)))
        return row

    def _require_own(self, ids: Sequence[int]) -> None:
        """Raises `InvalidRequestError` for ids that cannot come from this tokenizer.

        Some clients send ids of another tokenizer unasked. Most are in range, and would be embedded
        as gibberish. The text may have been cut inside a word.
        """
        own = self.tokenizer
        whole = list(dropwhile(lambda token: own.piece(token).startswith(_INSIDE), ids))
        whole = [token for token in whole if own.decode([token])]
        if own.encode(own.decode(whole)) != whole:
            raise InvalidRequestError(
                f"input: these ids are not from the tokenizer of {self.model_name}; send "
                "the text, or ids of /tokenize",
                param="input",
            )

    def _too_long(self, tokens: str) -> ContextLengthError:
        return ContextLengthError(
            f"This model's maximum context length is {self.context_length} tokens; however, "
            f"an input has {tokens} tokens. Please split it.",
            param="input",
        )
