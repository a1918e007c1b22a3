"""How likely a passage answers a question, said by a network that reads both together."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertConfig, BertModel

from dragon.errors import ConfigurationError
from dragon.models import EMBEDDED_RERANKER
from dragon.retrieval.cross_encoder import EMBEDDINGS, LAYERS, CrossEncoder
from dragon.retrieval.embedder import packaged_directory, packaged_weights

WEIGHTS = "model.safetensors"

_MOST_QUESTION, _MOST_TOKENS = 32, 80
"""Tokens of a question, and of question and passage together: what is over is cut, at the end."""

Encoded = tuple[list[int], list[int]]


class TextReranker(Protocol):
    """What says of each passage how likely it answers a question."""

    fingerprint: str

    def logits(self, question: str, passages: Sequence[str]) -> npt.NDArray[np.float64]:
        """Log-odds, not calibrated, float64 [len(passages)]."""


class Pairs:
    """Questions and passages as the network reads them: `[CLS] question [SEP] passage [SEP]`."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        ids = backend.get_vocab()
        self._start, self._end = ids["[CLS]"], ids["[SEP]"]

    @classmethod
    def load(cls) -> Pairs:
        """With the packaged embedder's tokenizer."""
        file = packaged_directory() / "tokenizer.json"
        return cls(tokenizers.Tokenizer.from_file(str(file)))

    def encode(self, question: str, passage: str) -> Encoded:
        """The tokens of a pair, and to which of the two each belongs (0 or 1)."""
        asked, said = (
            self._backend.encode(text, add_special_tokens=False).ids for text in (question, passage)
        )
        first = [self._start, *asked[:_MOST_QUESTION], self._end]
        second = [*said[: _MOST_TOKENS - len(first) - 1], self._end]
        return first + second, [0] * len(first) + [1] * len(second)


def padded(encoded: Sequence[Encoded], multiple: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, segments and mask, int64 [n, length], the length being a multiple of `multiple`."""
    longest = max(len(tokens) for tokens, _ in encoded)
    made = torch.zeros(3, len(encoded), longest + -longest % multiple, dtype=torch.int64)
    for row, (tokens, segments) in enumerate(encoded):
        made[0, row, : len(tokens)] = torch.tensor(tokens)
        made[1, row, : len(tokens)] = torch.tensor(segments)
        made[2, row, : len(tokens)] = 1
    return made[0], made[1], made[2]


class Reranker:
    """A cross-encoder over the packaged embedder's vocabulary. Safe between threads."""

    def __init__(self, network: CrossEncoder, pairs: Pairs, fingerprint: str) -> None:
        self._network = network.eval()
        self._pairs = pairs
        self.fingerprint = fingerprint

    @classmethod
    def load(cls, path: Path | None = None) -> Reranker:
        """Load the one in directory `path`, or the embedded one if it is None.

        Raises ConfigurationError if its weights are missing or damaged, or belong to another
        embedder than the packaged one.
        """
        file = (EMBEDDED_RERANKER if path is None else path) / WEIGHTS
        if not file.is_file():
            raise ConfigurationError(
                f"RERANKER: there is no {file}. Give a directory training.reranker.train made, "
                "or leave it unset for the embedded one."
            )
        again = "Get the file again."
        try:
            with safe_open(file, framework="pt") as opened:
                notes = opened.metadata() or {}
            learnt = load_file(file)
        except (OSError, SafetensorError) as error:
            raise ConfigurationError(f"RERANKER: {file} is damaged: {error}. {again}") from error
        base = hashlib.sha256(packaged_weights().read_bytes()).hexdigest()
        if notes.get("base") != base:
            raise ConfigurationError(f"RERANKER: {file} was made for another embedder. {again}")
        if notes.get("crc32") != _checksum(learnt):
            raise ConfigurationError(f"RERANKER: {file} is damaged. {again}")
        network = _network(learnt | _packaged(EMBEDDINGS))
        fingerprint = hashlib.sha256(file.read_bytes() + base.encode()).hexdigest()
        return cls(network, Pairs.load(), fingerprint)

    def logits(self, question: str, passages: Sequence[str]) -> npt.NDArray[np.float64]:
        """Log-odds, not calibrated, float64 [len(passages)]. What is over the limits is cut."""
        if not passages:
            return np.empty(0)
        tokens = padded([self._pairs.encode(question, passage) for passage in passages])
        with torch.inference_mode():
            logits: npt.NDArray[np.float64] = self._network(*tokens).double().numpy()
        return logits


def untrained() -> CrossEncoder:
    """The first layers of the packaged embedder, to be trained."""
    return _network(_packaged(""), strict=False)


def save(network: CrossEncoder, directory: Path) -> None:
    """Write what `Reranker.load` reads: all weights but the embeddings, in float16."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.half().contiguous()
        for name, weight in network.state_dict().items()
        if not name.startswith(EMBEDDINGS)
    }
    base = hashlib.sha256(packaged_weights().read_bytes()).hexdigest()
    notes = {"format": "pt", "base": base, "crc32": _checksum(weights)}
    save_file(weights, directory / WEIGHTS, notes)


def _packaged(beginning: str) -> dict[str, Tensor]:
    """Weights of the packaged embedder as the network names them."""
    named = {f"bert.{name}": weight for name, weight in load_file(packaged_weights()).items()}
    named.pop("bert.embeddings.position_ids", None)  # of older versions: it is no weight
    return {name: weight for name, weight in named.items() if name.startswith(beginning)}


def _network(weights: Mapping[str, Tensor], *, strict: bool = True) -> CrossEncoder:
    config = BertConfig.from_pretrained(str(packaged_directory()), num_hidden_layers=LAYERS)
    network = CrossEncoder(BertModel(config, add_pooling_layer=False))
    try:
        # Assigned: embeddings stay in the file's mapping, of which only the rows read are resident.
        floats = {name: weight.float() for name, weight in weights.items()}
        network.load_state_dict(floats, strict=strict, assign=True)
    except RuntimeError as error:
        raise ConfigurationError(f"RERANKER: these are not its weights: {error}") from error
    return network


def _checksum(weights: Mapping[str, Tensor]) -> str:
    checksum = 0
    for name in sorted(weights):
        checksum = zlib.crc32(weights[name].numpy().tobytes(), checksum)
    return f"{checksum:08x}"
