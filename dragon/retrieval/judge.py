"""Which lines of a passage answer a question, and how surely; which messages need no document.

The judge is a small encoder over the packaged embedder's vocabulary (`judge_network`), distilled
from an encoder five times its size (`training.judge`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertModel

from dragon.errors import ConfigurationError
from dragon.models import EMBEDDED_JUDGE
from dragon.retrieval.embedder import packaged_directory
from dragon.retrieval.judge_network import OUTSIDE, Batch, Encoded, JudgeNetwork

_WEIGHTS = "model.safetensors"  # the packaged embedder's
WEIGHTS = ("judge-1.safetensors", "judge-2.safetensors")
NOTES = "judge.json"
"""How the weights were trained, and the constants that turn logits into probabilities."""

MOST_QUESTION, MOST_TOKENS = 48, 320
"""The most tokens of a question, and of a question with its passage; longer ones are cut."""

_TOGETHER = 8
"""Passages read in one forward."""

_LETTERS = re.compile(r"[^\W\d_]{2,}")
_READ = 1.5
"""The least letters per token that can be judged: other scripts split into single letters."""

Logits = npt.NDArray[np.float64]


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


class Pairs:
    """Questions and passages as the network reads them: `[CLS] question [SEP] passage [SEP]`."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        ids = backend.get_vocab()
        self._start, self._end = ids["[CLS]"], ids["[SEP]"]

    def tokens(self, text: str) -> list[int]:
        """A text's tokens, without special ones."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def reads(self, question: str) -> bool:
        """Whether a text is in a script that the network was trained on."""
        words = _LETTERS.findall(question)
        return sum(map(len, words)) >= _READ * len(self.tokens(" ".join(words)))

    def encode(self, question: str, passage: Sequence[Line]) -> Encoded:
        """A question with a passage; without lines, a message alone."""
        tokens = [self._start, *self.tokens(question)[:MOST_QUESTION], self._end]
        segments, lines = [0] * len(tokens), [OUTSIDE] * len(tokens)
        for number, line in enumerate(passage):
            for place, text in ((OUTSIDE, line.above), (number, line.text)):
                piece = self.tokens(text)[: max(0, MOST_TOKENS - len(tokens) - 1)]
                tokens += piece
                segments += [1] * len(piece)
                lines += [place] * len(piece)
        return Encoded([*tokens, self._end], [*segments, 1], [*lines, OUTSIDE])


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
        if notes["embedder"] != hashlib.sha256((packaged / _WEIGHTS).read_bytes()).hexdigest():
            raise ConfigurationError(f"RERANKER: {directory} is for another embedder. {again}")
        backend = tokenizers.Tokenizer.from_file(str(packaged / "tokenizer.json"))
        return cls(_network(weights), Pairs(backend), digest.hexdigest())

    @torch.inference_mode()
    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        """As `TextJudge.logits`. A line that is cut off entirely cannot answer: minus infinity.

        For a question in a script that the network cannot read, all are 0.
        """
        if not self._pairs.reads(question):
            return [np.zeros(len(passage)) for passage in passages]
        encoded = [self._pairs.encode(question, passage) for passage in passages]
        order = sorted(range(len(encoded)), key=lambda n: len(encoded[n].tokens))
        made: list[Logits] = [np.empty(0)] * len(encoded)
        for at in range(0, len(order), _TOGETHER):
            part = order[at : at + _TOGETHER]
            logits = self._network(Batch.of([encoded[n] for n in part])).double().numpy()
            for n, own in zip(part, logits, strict=True):
                lacking = max(0, len(passages[n]) - len(own))
                made[n] = np.pad(own[: len(passages[n])], (0, lacking), constant_values=-np.inf)
        return made

    @torch.inference_mode()
    def needless(self, message: str) -> float:
        """As `TextJudge.needless`; minus infinity for a message that it cannot read."""
        if not self._pairs.reads(message):
            return -np.inf
        batch = Batch.of([self._pairs.encode(message, ())])
        return float(self._network.needs_none(batch)[0])


def _network(learnt: Mapping[str, Tensor]) -> JudgeNetwork:
    """The network with these weights over the packaged embedder's embeddings."""
    config = BertConfig.from_pretrained(str(packaged_directory()))
    network = JudgeNetwork(BertModel(config, add_pooling_layer=False), config.hidden_size)
    packaged = {
        f"encoder.{name}": weight
        for name, weight in load_file(packaged_directory() / _WEIGHTS).items()
        if name.startswith("embeddings.") and not name.endswith("position_ids")
    }
    try:
        # Assigned: embeddings stay in the file's mapping, where only rows in use are resident.
        floats = {name: weight.float() for name, weight in (packaged | dict(learnt)).items()}
        network.load_state_dict(floats, assign=True)
    except RuntimeError as error:
        raise ConfigurationError(f"RERANKER: these are not a judge's weights: {error}") from error
    return network
