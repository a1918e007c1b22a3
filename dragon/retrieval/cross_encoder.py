"""The network that reads a question together with a passage: the first layers of a BERT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import BertModel

LAYERS = 4
EMBEDDINGS = "bert.embeddings."
"""What the names of the frozen weights begin with: they are the embedder's own."""

_SHARPNESS = 10.0


class CrossEncoder(nn.Module):
    """Logits that a passage answers a question, from a BERT over both (Nogueira and Cho, 2019).

    Beside the first token's state the head sees the means over question and passage and their
    product, the cosine of which is what an embedder was trained to make telling.
    """

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert
        width = bert.config.hidden_size
        self.head = nn.Linear(4 * width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, -_SHARPNESS)
        with torch.no_grad():
            self.head.weight[0, 3 * width :] = _SHARPNESS

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        """Logits, float [n]; tokens, segments (1 for the passage) and mask int64 [n, length]."""
        states = self.bert(
            input_ids=tokens, token_type_ids=segments, attention_mask=mask
        ).last_hidden_state
        asked = functional.normalize(_mean(states, mask * (1 - segments)), dim=-1)
        said = functional.normalize(_mean(states, mask * segments), dim=-1)
        features = torch.cat((states[:, 0], asked, said, asked * said), dim=-1)
        logits: Tensor = self.head(features).squeeze(-1)
        return logits


def _mean(states: Tensor, chosen: Tensor) -> Tensor:
    weights = chosen.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)
