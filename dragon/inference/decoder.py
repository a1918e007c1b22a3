"""One side's rows of one answer: a document per row, mixed into one distribution per token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import torch

from dragon.errors import ContextLengthError
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.backend import PIECE, Backend, never
from dragon.inference.backends.slots import BLOCK, blocks_of
from dragon.inference.distribution import DetailedSide, FullDistribution
from dragon.inference.kv_store import KVStore
from dragon.inference.rows import Quoting, Row
from dragon.inference.weighting import Rescoring, Weighting, Weights
from dragon.localizable import localizable
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side
from dragon.sampling.noise import Ids
from dragon.sampling.privacy import ReferredSide
from dragon.sampling.quantized import NucleusCut, cut


@dataclass
class CutStatistics:
    """The cost of cutting distributions for the wire: sums over all distributions so far."""

    count: int = 0
    mass: float = 0.0
    tv: float = 0.0


@dataclass(frozen=True)
class Decoding:
    """How the rows of a side become its distributions; by default by the model alone.

    `rescoring` and `adjustment` change relevance and logits along the text. If `detailed`,
    distributions come with the full ones they were cut from; if `referred`, with those of the last
    row, which is not mixed in unless it is the only one. If `adapted`, the model's adapter is used.
    """

    rescoring: Rescoring | None = None
    adjustment: Adjustment | None = None
    detailed: bool = False
    referred: bool = False
    adapted: bool = True

    def __post_init__(self) -> None:
        assert not (self.detailed and self.referred)


BY_MODEL = Decoding()


class Decoder:
    """Rows in slots, all holding the same conversation and the same generated tokens.

    Made on any thread; only the engine's calls `acquire`, `prefill` and `release`. The text after
    the conversation is addressed from 0: the first generated token is token 0. `prefilled`
    completes once steps can run, or holds the error that prevents it. It takes room for `limit`
    tokens, by default for the whole context; `horizon` is how many can be run. Documents' keys and
    values are kept in `store`.

    Raises `ContextLengthError` if the longest row leaves no room for a token.
    """

    def __init__(
        self,
        model: Backend,
        rows: Sequence[Row],
        conversation: Sequence[int],
        decoding: Decoding = BY_MODEL,
        *,
        store: KVStore | None = None,
        limit: int | None = None,
    ) -> None:
        assert rows, "a side takes part with one row at least"
        self._model = model
        self._store = store
        self._decoding = decoding
        quotes = decoding.adjustment is None or decoding.adjustment.quotable
        self._quoting = Quoting([row.quotes if quotes else () for row in rows], model.ends)
        self._rows = tuple(rows)
        self._conversation = tuple(conversation)
        self.bases = [len(row.tokens) + len(conversation) for row in rows]
        longest = max(self.bases)
        self.horizon = model.context - longest
        if min(self.bases) < 1:
            raise ContextLengthError("the prompt is empty")
        if self.horizon < 1:
            raise ContextLengthError(
                localizable(
                    "context.document",
                    "the prompt has {tokens} tokens with its document, and the model's context is "
                    "{context}: shorten the conversation",
                    tokens=longest,
                    context=model.context,
                )
            )
        if limit is not None:
            self.horizon = min(self.horizon, BLOCK * blocks_of(longest + limit + 1) - longest)
        self.positions = longest + self.horizon
        self.weighting = Weighting([row.relevance for row in rows], decoding.rescoring)
        self.weights = self.weighting.first.rows  # from the question alone
        self.slots: list[int] = []
        self.prefilled: Future[None] = Future()
        self.statistics = CutStatistics()
        self.likelihood = SequenceLikelihood([row.relevance for row in rows])
        self._first: Side | None = None

    def require(self, tokens: int) -> None:
        """Raises `ContextLengthError` if a text of this many tokens does not fit."""
        if self.horizon < tokens:
            raise ContextLengthError(
                f"a text of {tokens} tokens does not fit: after the prompt with its document the "
                f"model's context has {self.horizon} left"
            )

    @property
    def masking_s(self) -> float:
        return 0.0 if self._decoding.adjustment is None else self._decoding.adjustment.masking_s

    @property
    def fits(self) -> bool:
        """Whether slots, and room in them, are free for it now."""
        return self._model.cache.fits(len(self._rows), self.positions)

    def acquire(self) -> bool:
        """Acquire slots with room for everything that may be written; False if there are none."""
        slots = self._model.cache.acquire(len(self._rows), self.positions)
        self.slots = slots or []
        self._model.begin(self.slots, adapted=self._decoding.adapted)
        return slots is not None

    def release(self) -> None:
        self._model.cache.release(self.slots)
        self.slots = []

    def prefill(self) -> None:
        """Fill in the documents, then run the conversation in all rows at once."""
        for _ in self.pieces():
            pass

    def pieces(self, cancelled: Callable[[], bool] = never) -> Iterator[int]:
        """Prefill piece by piece, yielding each piece's tokens: other decoders may run in between.

        Raises `PreemptedError` once `cancelled`.
        """
        for slot, row in zip(self.slots, self._rows, strict=True):
            yield from fill(self._model, slot, row, self._store, cancelled)
        # Pieces do not depend on what else runs: a sum's bits depend on them.
        for start in range(0, len(self._conversation), PIECE):
            piece = self._conversation[start : start + PIECE]
            outputs = int(start + len(piece) == len(self._conversation))
            starts = [len(row.tokens) + start for row in self._rows]
            tokens = torch.tensor([piece]).expand(len(self._rows), -1)
            logits = self._model.forward(self.slots, starts, tokens, outputs, cancelled=cancelled)
            yield tokens.numel()
        if self._conversation:
            logits = self._adjusted(logits[:, -1], 0)
            self.likelihood.begin(logits)
            self._first = self.mix(logits, 0)

    def sides(self, work: Work, logits: torch.Tensor | None) -> list[Side]:
        """The distributions that `work` asks for, from its logits float32 [rows, `work.logits`, V].

        The tokens that it asks to score are added to `likelihood`.
        """
        self.weighting.follow(work.keep, work.tokens)
        raw = () if logits is None else logits.unbind(1)
        first = self.weighting.length - len(raw) + 1
        steps = [self._adjusted(step, position) for position, step in enumerate(raw, first)]
        if work.scored:
            self.likelihood.add(work.keep, work.scored, steps)
        wanted = steps[max(0, len(steps) - work.outputs) :]
        first = self.weighting.length - len(wanted) + 1
        fed = [self.mix(step, position) for position, step in enumerate(wanted, first)]
        if work.outputs > len(fed):
            assert self._first is not None
            return [self._first, *fed]
        return fed

    def _adjusted(self, logits: torch.Tensor, position: int) -> torch.Tensor:
        if self._decoding.adjustment is None:
            return logits
        return self._decoding.adjustment.of(logits, self.weighting.text(position))

    def mix(self, logits: torch.Tensor, position: int) -> Side:
        """p^s at a position, from adjusted logits float32 [rows, V], weighted by relevance."""
        weights = self.weighting.at(position)
        if not self._quoting.free:
            logits, weights = self._quoted(logits, weights, position)
        whole = logits
        # Mix the named tokens only: if they are few, the others would take most of the time.
        named = None
        if not self._model.full:
            named = np.flatnonzero((logits.numpy() > -np.inf).any(0))
            logits = logits[:, torch.from_numpy(named)]
        probabilities = torch.softmax(logits, -1)
        mixed = (weights.rows.to(probabilities.dtype)[:, None] * probabilities).sum(0)
        result = _cut(mixed, named)
        self.statistics.count += 1
        self.statistics.mass += result.mass
        self.statistics.tv += result.tv
        if self._decoding.referred:
            return ReferredSide(result.wire, weights.log_h, _cut(probabilities[-1], named).wire)
        if not self._decoding.detailed:
            return Side(result.wire, weights.log_h)
        full = FullDistribution.of(whole, weights.rows)
        return DetailedSide(result.wire, weights.log_h, full)

    def _quoted(
        self, logits: torch.Tensor, weights: Weights, position: int
    ) -> tuple[torch.Tensor, Weights]:
        """Restrict rows to the tokens they may write, and weights to rows that may write any."""
        allowed = self._quoting.allowed(self.weighting.text(position))
        able = torch.tensor([each is None or bool(each) for each in allowed])
        quoted = logits.clone()
        for row, tokens in enumerate(allowed):
            if tokens:
                ids = sorted(tokens)
                # A token that the model does not name is at most as likely as the least likely
                # named one.
                least = logits[row][torch.isfinite(logits[row])].min()
                quoted[row] = -torch.inf
                quoted[row, ids] = logits[row, ids].clamp_min(least)
        return quoted, weights.among(able)


def _cut(probabilities: torch.Tensor, named: Ids | None) -> NucleusCut:
    """The cut of a distribution, float32 [V], or of the `named` tokens, int64 [n], rising."""
    result = cut(probabilities.numpy())
    if named is None:
        return result
    return replace(result, wire=replace(result.wire, ids=named[result.wire.ids]))


def fill(
    model: Backend,
    slot: int,
    row: Row,
    store: KVStore | None,
    cancelled: Callable[[], bool] = never,
) -> Iterator[int]:
    """Begin a slot with a document: copy its keys and values if they are kept, else compute them.

    It is computed alone, hence the same in every answer, and in pieces, whose tokens are yielded.
    """
    if model.kv is not None and row.tokens and not model.kv.holds(slot, row.tokens):
        kept = row.kv or (store.load(row) if store is not None else None)
        if kept is not None:
            model.kv.write(slot, row.tokens, kept)
            return
    for start in range(0, len(row.tokens), PIECE):
        piece = row.tokens[start : start + PIECE]
        model.forward([slot], [start], torch.tensor([piece]), 0, cancelled=cancelled)
        yield len(piece)
    if model.kv is not None and store is not None and store.wants(row):
        store.save(row, model.kv.read(slot, len(row.tokens)))


def step(model: Backend, decoders: Sequence[Decoder], works: Sequence[Work]) -> list[list[Side]]:
    """Run the works of several decoders as `forward` does; the distributions that each asks for."""
    wanted = zip(decoders, works, forward(model, decoders, works), strict=True)
    return [decoder.sides(work, part) for decoder, work, part in wanted]


def forward(
    model: Backend,
    decoders: Sequence[Decoder],
    works: Sequence[Work],
    cancelled: Callable[[], bool] = never,
) -> list[torch.Tensor] | list[None]:
    """Run the works of several decoders, all of the same number of tokens, in one forward pass.

    Returns the logits of each, float32 [rows, `work.logits`, V]; None for no tokens. Raises
    `PreemptedError` once `cancelled`.
    """
    if not works[0].tokens:
        return [None] * len(works)
    pairs = list(zip(decoders, works, strict=True))
    slots = [slot for decoder in decoders for slot in decoder.slots]
    starts = [base + work.keep for decoder, work in pairs for base in decoder.bases]
    tokens = torch.tensor([work.tokens for decoder, work in pairs for _ in decoder.slots])
    outputs = max(work.logits for work in works)
    logits = model.forward(slots, starts, tokens, outputs, cancelled=cancelled)
    parts = torch.split(logits, [len(decoder.slots) for decoder in decoders])
    return [part[:, -work.logits :] for work, part in zip(works, parts, strict=True)]


class SequenceLikelihood:
    """log P^s(y) = log sum over d of softmax(R)_d times the product over t of p(y_t | d, y_<t).

    RAG-Sequence (Lewis et al. 2020, equation 1) on full distributions, in float64; R, the relevance
    of the rows in nats, is that of the prompt. `add` extends the text, and `value` is the
    log-likelihood of what it has so far.
    """

    def __init__(self, relevance: Sequence[float]) -> None:
        self._log_weights = torch.log_softmax(torch.tensor(relevance, dtype=torch.float64), 0)
        self._length = 0
        self._sums = torch.zeros_like(self._log_weights)  # log p(y_t | d, y_<t), summed per row
        self._prompt: torch.Tensor | None = None
        self._last: torch.Tensor | None = None
        self.value = 0.0

    def begin(self, logits: torch.Tensor) -> None:
        """Set the logits float32 [rows, V] after the prompt, which every text continues."""
        self._prompt = logits

    def add(self, keep: int, tokens: Sequence[int], steps: Sequence[torch.Tensor]) -> None:
        """Add `tokens` after the first `keep`: the whole text so far, or none (another text).

        `steps` holds the logits float32 [rows, V] after each of the tokens; those after the last
        one may be missing if the text ends.
        """
        assert keep in (0, self._length), "a text is scored from its beginning on"
        before = self._last if keep else self._prompt
        assert before is not None, "nothing may be added where the text has ended"
        after = (before, *steps)
        sums = self._sums.clone() if keep else torch.zeros_like(self._sums)
        for token, logits in zip(tokens, after, strict=False):
            exact = logits.to(torch.float64)
            sums += exact[:, token] - torch.logsumexp(exact, -1)
        self._length, self._sums = keep + len(tokens), sums
        # A copy: a view would keep the logits of all steps in memory.
        self._last = after[-1].clone() if len(steps) == len(tokens) else None
        self.value = min(0.0, float(torch.logsumexp(self._log_weights + sums, 0)))
