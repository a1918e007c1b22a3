"""Vectors computed in advance, in a file beside a corpus's source, to make a first start quick.

A vector applies to one text and one embedder; texts missing from the file are embedded as usual.

    python -m peer.corpus.prebuilt SOURCE

rewrites the file, with the packaged embedder.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from dragon.retrieval.embedder import Embedder, TextEmbedder
from dragon.retrieval.index import Vectors

_DIGEST_BYTES = 16


class Prebuilt:
    """An embedder with vectors of some texts: `known` maps the texts' digests to them."""

    def __init__(self, embedder: TextEmbedder, known: Mapping[bytes, Vectors]) -> None:
        self._embedder = embedder
        self._known = known

    @classmethod
    def of(cls, source: Path, embedder: TextEmbedder) -> Prebuilt:
        """Use the file beside `source`, if there is one of this embedder."""
        try:
            with safe_open(_beside(source), framework="numpy") as file:
                if file.metadata() != {"embedder": embedder.fingerprint}:
                    return cls(embedder, {})
                digests, vectors = file.get_tensor("digests"), file.get_tensor("vectors")
        except (OSError, SafetensorError):
            return cls(embedder, {})
        whole = vectors.astype(np.float32)
        return cls(embedder, {key.tobytes(): v for key, v in zip(digests, whole, strict=True)})

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, float32 [len(texts), dim]; known ones are in half precision."""
        new = [text for text in texts if _digest(text) not in self._known]
        made = dict(zip(new, self._embedder.embed(new), strict=True))
        vectors = [made[text] if text in made else self._known[_digest(text)] for text in texts]
        return np.stack(vectors)


def write(source: Path, texts: Sequence[str], embedder: TextEmbedder) -> None:
    """Write the file beside `source`, reusing the vectors it has of this embedder."""
    digests = np.stack([np.frombuffer(_digest(text), dtype=np.uint8) for text in texts])
    vectors = Prebuilt.of(source, embedder).embed(texts).astype(np.float16)
    tensors = {"digests": digests, "vectors": vectors}
    save_file(tensors, _beside(source), {"embedder": embedder.fingerprint})


def _beside(source: Path) -> Path:
    return source.with_suffix(".safetensors")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def main() -> None:
    """Embed every passage of the source named on the command line."""
    from peer.corpus.builder import embedded_texts

    source = Path(sys.argv[1])
    write(source, embedded_texts(source), Embedder.load())


if __name__ == "__main__":
    main()
