"""Vectors computed in advance, in a file beside a corpus's source, to make a first start quick.

A vector applies to one text and one embedder; texts missing from the file are embedded as usual.

    python -m peer.corpus.prebuilt SOURCE

rewrites the file, with the packaged embedder.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from dragon.retrieval.embedder import Embedder, TextEmbedder
from dragon.retrieval.index import Vectors

_DIGEST_BYTES = 16


def prebuilt(source: Path, embedder: TextEmbedder) -> Callable[[Sequence[str]], Vectors]:
    """The embedder's `embed`, with its vectors in the file beside `source`, in half precision."""
    known: dict[bytes, Vectors] = {}
    with suppress(OSError, SafetensorError), safe_open(_beside(source), framework="numpy") as file:
        if file.metadata() == {"embedder": embedder.fingerprint}:
            vectors = file.get_tensor("vectors").astype(np.float32)
            digests = map(bytes, file.get_tensor("digests"))
            known.update(zip(digests, vectors, strict=True))

    def embed(texts: Sequence[str]) -> Vectors:
        new = [text for text in texts if _digest(text) not in known]
        made = dict(zip(new, embedder.embed(new), strict=True))
        return np.stack([made[text] if text in made else known[_digest(text)] for text in texts])

    return embed


def write(source: Path, texts: Sequence[str], embedder: TextEmbedder) -> None:
    """Write the file beside `source`, reusing the vectors it has of this embedder."""
    digests = np.stack([np.frombuffer(_digest(text), dtype=np.uint8) for text in texts])
    vectors = prebuilt(source, embedder)(texts).astype(np.float16)
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
