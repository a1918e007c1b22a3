"""An embedder that needs no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dragon.retrieval.embedder import Passage


class Letters:
    """A text's vector counts its letters."""

    dim = 26
    fingerprint = "letters"

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        """Vectors of length 1, of each text separately."""
        return self.embed([text for text, _ in passages])

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of length 1."""
        counts = [[text.lower().count(chr(97 + each)) for each in range(26)] for text in texts]
        vectors = np.array(counts, dtype=np.float32) + 1e-3
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
