"""The packaged all-MiniLM-L6-v2 as sentence-transformers runs it, bit for bit.

sentence-transformers imports scikit-learn and every trainer, which take much memory; this model, a
BERT with mean pooling (Sentence-BERT, arXiv 1908.10084), needs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoTokenizer, BertModel

MAX_TOKENS = 256


class PackagedModel:
    """The part of `SentenceTransformer` that `Embedder` uses. Raises as `from_pretrained` does."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(directory))
        self._network = BertModel.from_pretrained(str(directory)).eval()

    def get_embedding_dimension(self) -> int:
        """The length of a vector."""
        return int(self._network.config.hidden_size)

    def get_max_seq_length(self) -> int:
        """The most tokens of a text, special ones included; longer texts are cut."""
        return MAX_TOKENS

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], batch_size: int, **_: object) -> npt.NDArray[np.float32]:
        """Vectors of length 1, float32 [len(texts), dim]; texts of similar length share a batch."""
        order = np.argsort([-len(text) for text in texts])
        batches = []
        for start in range(0, len(order), batch_size):
            features = self.tokenizer(
                [texts[place] for place in order[start : start + batch_size]],
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
        states = self._network(torch.tensor([ids])).last_hidden_state[0]
        sums = torch.stack([states[start + 1 : end + 1].sum(0) for start, end in spans])
        pooled: npt.NDArray[np.float32]
        pooled = functional.normalize(sums + states[0] + states[-1], dim=-1).numpy()
        return pooled

    def __call__(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`sentence_embedding`, float32 [n, dim] of length 1, of padded rows [n, length]."""
        states = self._network(**features).last_hidden_state
        mask = features["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return {"sentence_embedding": functional.normalize(mean, dim=-1)}
