"""The offline profiler on a tiny model: what it decodes, not how fast."""

from __future__ import annotations

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.profile import CHUNK_TOKENS, decode_delays


def test_contexts_grow_by_one_and_slots_are_given_back(model: LanguageModel) -> None:
    free = model.cache.free
    contexts, seconds = decode_delays(model, 2, steps=8)
    assert len(contexts) == len(seconds) == 8 - 3
    assert contexts == list(range(contexts[0], contexts[0] + 5))
    assert contexts[-1] == CHUNK_TOKENS + 1 + 8
    assert min(seconds) > 0
    assert model.cache.free == free
