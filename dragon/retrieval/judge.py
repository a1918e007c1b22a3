"""Judges which lines of a passage answer, which messages need no document, and whose a question is.

The judge is a small encoder over the packaged embedder's vocabulary, distilled from one five times
its size (`training.judge`). One pass judges all lines of a passage (Provence, arXiv 2501.16214), so
that a heading, a pronoun or a neighbour is read with the line that needs it. The logits of the
lines and a constant 0 for "none of them" go through one softmax, so lines of different passages are
directly comparable.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from dragon.errors import ConfigurationError
from dragon.models import EMBEDDED_JUDGE, WHOSE
from dragon.retrieval.embedder import WEIGHTS as PACKAGED_WEIGHTS
from dragon.retrieval.embedder import Bert, packaged_directory, read_weights

WEIGHTS = ("judge-1.safetensors", "judge-2.safetensors")
NOTES = "judge.json"
"""How the weights were trained, and the constants that turn logits into probabilities."""

MOST_QUESTION, MOST_TOKENS = 48, 320
"""The most tokens of a question, and of a question with its passage; longer ones are cut."""

_TOGETHER = 8  # passages read in one forward
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_READ = 1.5
"""The fewest letters per token that can be judged: other scripts split into single letters."""

OUTSIDE = -1
"""The line number of tokens outside all lines: the question, a heading, an item's number."""

_ENCODER = "encoder."  # what the names of its weights begin with
_SHARPNESS = 10.0

Piece = tuple[int, Sequence[int]]
"""A line's number, or `OUTSIDE`, and its tokens."""

Logits = npt.NDArray[np.float64]
States = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Line:
    """A sentence or a line of a passage; `above` stands between it and the previous line."""

    text: str
    above: str = ""


class TextJudge(Protocol):
    """Judges how likely lines answer, and whether messages need documents."""

    fingerprint: str

    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        """Per passage the logit of each line, float64 [lines], with 0 meaning "none of them"."""

    def needless(self, message: str) -> float:
        """The log-odds that a message needs no document."""

    def state(self, message: str) -> States | None:
        """Its hidden states for a message alone, as one vector; None if it cannot read it."""


class Pairs:
    """Questions and passages as the network reads them: `[CLS] question [SEP] passage [SEP]`."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self.vocabulary = backend.get_vocab()
        self.start, self.end = self.vocabulary["[CLS]"], self.vocabulary["[SEP]"]

    def tokens(self, text: str) -> list[int]:
        """A text's tokens, without special ones."""
        return self._backend.encode(text, add_special_tokens=False).ids

    def reads(self, question: str) -> bool:
        """Whether a text is in a script that the network was trained on."""
        words = _LETTERS.findall(question)
        return sum(map(len, words)) >= _READ * len(self.tokens(" ".join(words)))

    def encode(self, question: str, passage: Sequence[Line]) -> EncodedPair:
        """A question with a passage; without lines, a message alone."""
        pieces = list[Piece]()
        for number, line in enumerate(passage):
            pieces += (OUTSIDE, self.tokens(line.above)), (number, self.tokens(line.text))
        return self.joined(self.tokens(question), pieces)

    def joined(
        self, question: Sequence[int], pieces: Sequence[Piece], most: int = MOST_TOKENS
    ) -> EncodedPair:
        """The tokens of a question and of the pieces of a passage, at most `most`."""
        tokens = [self.start, *question[:MOST_QUESTION], self.end]
        segments, lines = [0] * len(tokens), [OUTSIDE] * len(tokens)
        for line, piece in pieces:
            cut = piece[: max(0, most - len(tokens) - 1)]
            tokens += cut
            segments += [1] * len(cut)
            lines += [line] * len(cut)
        return EncodedPair([*tokens, self.end], [*segments, 1], [*lines, OUTSIDE])


@dataclass(frozen=True)
class EncodedPair:
    """Tokens of a question, segment 0, and a passage, 1, whose `lines` count from 0."""

    tokens: Sequence[int]
    segments: Sequence[int]
    lines: Sequence[int]


@dataclass(frozen=True)
class PaddedPairs:
    """Padded rows, int64 [n, length] each; `mask` is 1 at tokens."""

    tokens: Tensor
    segments: Tensor
    lines: Tensor
    mask: Tensor

    @classmethod
    def of(cls, rows: Sequence[EncodedPair], multiple: int = 1) -> PaddedPairs:
        """Rows padded to the longest, rounded up to a multiple."""
        longest = max(len(row.tokens) for row in rows)
        length = longest + -longest % multiple

        def padded(values: Iterable[Sequence[int]], filler: int = 0) -> Tensor:
            return torch.tensor([[*each, *[filler] * (length - len(each))] for each in values])

        tokens, lines = (row.tokens for row in rows), (row.lines for row in rows)
        segments, mask = (row.segments for row in rows), ([1] * len(row.tokens) for row in rows)
        return cls(padded(tokens), padded(segments), padded(lines, OUTSIDE), padded(mask))

    def to(self, device: str) -> PaddedPairs:
        return PaddedPairs(*(each.to(device) for each in vars(self).values()))


class JudgeNetwork(nn.Module):
    """An encoder, a head for lines and a head for messages that need no document.

    A line is represented by the mean of its tokens, the mean of the question's, their product
    (whose sum is the cosine, which the encoder was trained to make informative) and the first
    token's state.
    """

    def __init__(self, encoder: Bert | nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.mix = nn.Linear(4 * width, width)
        self.line = nn.Linear(width, 1)
        self.cosine = nn.Parameter(torch.tensor([_SHARPNESS, -_SHARPNESS / 2]))
        self.needless = nn.Linear(width, 1)

    def states(self, batch: PaddedPairs) -> Tensor:
        """The encoder's last hidden states, float [n, length, width]."""
        return cast(Tensor, self.encoder(batch.tokens, batch.mask, batch.segments))

    def forward(self, batch: PaddedPairs) -> Tensor:
        """Logits of lines, float [n, lines]; minus infinity if a row has no such line."""
        states = self.states(batch)
        count = int(batch.lines.max()) + 1
        chosen = functional.one_hot(batch.lines + 1, count + 1)[..., 1:].to(states.dtype)
        sums = torch.einsum("ntl,ntd->nld", chosen, states)
        there = chosen.sum(1)
        said = functional.normalize(sums / there.clamp(min=1).unsqueeze(-1), dim=-1)
        question = (batch.mask * (1 - batch.segments)).unsqueeze(-1).to(states.dtype)
        asked = functional.normalize((states * question).sum(1) / question.sum(1), dim=-1)
        asked = asked.unsqueeze(1).expand_as(said)
        first = states[:, :1].expand_as(said)
        mixed = functional.gelu(self.mix(torch.cat((first, asked, said, asked * said), dim=-1)))
        logits = self.line(mixed).squeeze(-1)
        logits = logits + self.cosine[0] * (asked * said).sum(-1) + self.cosine[1]
        return cast(Tensor, logits.masked_fill(there == 0, -torch.inf))

    def needs_none(self, batch: PaddedPairs) -> Tensor:
        """Log-odds that a message needs no document, float [n]."""
        return cast(Tensor, self.needless(self.states(batch)[:, 0]).squeeze(-1))


def outcomes(logits: Tensor) -> Tensor:
    """Log-probabilities that none answers, then that each line does, float [n, 1 + lines]."""
    none = torch.zeros_like(logits[:, :1])
    return torch.cat((none, logits), dim=1).log_softmax(dim=1)


class Judge:
    """A trained network with its tokenizer. Thread-safe."""

    def __init__(self, network: JudgeNetwork, pairs: Pairs, fingerprint: str) -> None:
        self._network = network.eval()
        self._pairs = pairs
        self.fingerprint = fingerprint

    @classmethod
    def load(cls, directory: Path | None = None) -> Judge:
        """Load the judge in a directory, or the embedded one.

        Raises ConfigurationError if its files are missing or damaged, or made for an embedder other
        than the packaged one.
        """
        directory = EMBEDDED_JUDGE if directory is None else directory
        again = "Give a directory that training.judge made, or leave it unset for the embedded one."
        digest, weights = hashlib.sha256(), dict[str, Tensor]()
        try:
            notes = json.loads((directory / NOTES).read_text("utf-8"))
            for name in WEIGHTS:
                data = hashlib.sha256((directory / name).read_bytes()).hexdigest()
                if notes["sha256"][name] != data:
                    raise ConfigurationError(f"RERANKER: {directory / name} is damaged. {again}")
                digest.update(data.encode())
                weights |= load_file(directory / name)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ConfigurationError(
                f"RERANKER: {directory} has no whole judge: {error}. {again}"
            ) from error
        packaged = packaged_directory()
        with (packaged / PACKAGED_WEIGHTS).open("rb") as file:
            embedder = hashlib.file_digest(file, "sha256").hexdigest()
        if notes["embedder"] != embedder:
            raise ConfigurationError(f"RERANKER: {directory} is for another embedder. {again}")
        backend = tokenizers.Tokenizer.from_file(str(packaged / "tokenizer.json"))
        return cls(_network(weights), Pairs(backend), digest.hexdigest())

    @torch.inference_mode()
    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        """As `TextJudge.logits`: minus infinity for a line that is cut off, 0 if it cannot read."""
        if not self._pairs.reads(question):
            return [np.zeros(len(passage)) for passage in passages]
        encoded = [self._pairs.encode(question, passage) for passage in passages]
        order = sorted(range(len(encoded)), key=lambda n: len(encoded[n].tokens))
        made: list[Logits] = [np.empty(0)] * len(encoded)
        for at in range(0, len(order), _TOGETHER):
            part = order[at : at + _TOGETHER]
            logits = self._network(PaddedPairs.of([encoded[n] for n in part])).double().numpy()
            for n, own in zip(part, logits, strict=True):
                lacking = max(0, len(passages[n]) - len(own))
                made[n] = np.pad(own[: len(passages[n])], (0, lacking), constant_values=-np.inf)
        return made

    @torch.inference_mode()
    def needless(self, message: str) -> float:
        """As `TextJudge.needless`; minus infinity for a message that it cannot read."""
        batch = self._alone(message)
        return -np.inf if batch is None else float(self._network.needs_none(batch)[0])

    @torch.inference_mode()
    def state(self, message: str) -> States | None:
        """As `TextJudge.state`: the first token's state, then the mean, float32 [2 * width]."""
        if (batch := self._alone(message)) is None:
            return None
        (states,) = self._network.states(batch)
        made: States = torch.cat((states[0], states.mean(0))).numpy()
        return made

    def _alone(self, message: str) -> PaddedPairs | None:
        if not self._pairs.reads(message):
            return None
        return PaddedPairs.of([self._pairs.encode(message, ())])


def _network(learnt: Mapping[str, Tensor]) -> JudgeNetwork:
    """The network with these weights over the packaged embedder's embeddings."""
    directory = packaged_directory()
    packaged = read_weights(directory)
    embeddings = {n: each for n, each in packaged.items() if n.startswith("embeddings.")}
    floats = {name: weight.float() for name, weight in learnt.items()}
    layers = {
        n.removeprefix(_ENCODER): each for n, each in floats.items() if n.startswith(_ENCODER)
    }
    try:
        encoder = Bert(directory, embeddings | layers)
        network = JudgeNetwork(encoder, encoder.width)
        network.load_state_dict({n: e for n, e in floats.items() if not n.startswith(_ENCODER)})
    except (KeyError, RuntimeError) as error:
        raise ConfigurationError(f"RERANKER: these are not a judge's weights: {error}") from error
    return network


# Whose matter a question is. "When does the lease end?" is for the person's own documents. "How
# tall does a giraffe get?" is anybody's, though a note on a fence may seem to answer it. "What is
# the capital of the country I fly to?" needs a line of one's own first. A logistic regression over
# the judge's state for a question tells them apart, and from languages that the judge has not
# learnt to read (`training.whose`).


WORLD = 0.47
"""How many nats a line of one's own loses per nat of log-odds that a question is anybody's.

Fitted by `training.whose`, beside the line's own log-odds.
"""


@dataclass(frozen=True)
class Whose:
    """Log-odds, nats, that only one's own documents answer a question, and that `both` must."""

    own: float = 0.0
    both: float = -math.inf

    @property
    def prior(self) -> float:
        """Nats to add to the log-odds of one's own lines: at most 0, as it makes no line answer."""
        return min(0.0, WORLD * self.own)

    @property
    def leans(self) -> bool:
        """Whether it is answered by the world's documents, once one's own say what it means."""
        return self.both > 0.0


def whose(question: str, judge: TextJudge) -> Whose:
    """Whose matter a question is; unknown in other languages than English or with another judge."""
    fitted_to, weights = _fitted()
    state = judge.state(question) if judge.fingerprint == fitted_to else None
    if state is None:
        return Whose()
    own, world, both, unread = (weights[:, :-1] @ state + weights[:, -1]).astype(np.float64)
    return Whose(
        own=float(np.logaddexp(own, unread) - np.logaddexp.reduce([world, both, unread])),
        both=float(both - np.logaddexp.reduce([own, world, unread])),
    )


@cache
def _fitted() -> tuple[str, npt.NDArray[np.float32]]:
    """The judge's fingerprint, and weights [4, 2 * width + 1]: one's own, world, both, unread."""
    with np.load(WHOSE) as arrays:
        return str(arrays["judge"]), arrays["weights"]
