"""Exact mode: a position's values depend on its tokens alone, bit for bit.

The reference is a model that has done nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from dragon.inference.backends.llama_cpp.model import EXACT_BLOCK, LlamaCpp
from tests.dragon.inference.backends.llama_cpp.conftest import Load

PROMPT = [7 * n % 8000 + 10 for n in range(2 * EXACT_BLOCK + 9)]
ANSWER = [100, 200, 300, 400]


def begun(model: LlamaCpp, prompt: Sequence[int], pieces: Sequence[int] = ()) -> int:
    """A slot whose row is about to begin, fed the prompt but for its last piece."""
    (slot,) = model.cache.acquire(1, 512) or []
    model.begin([slot], adapted=True)
    for start, end in zip((0, *pieces), pieces, strict=False):
        model.forward([slot], [start], torch.tensor([prompt[start:end]]), 0)
    return slot


def answered(model: LlamaCpp, pieces: Sequence[int] = (), *, at_once: bool = False) -> torch.Tensor:
    """The logits behind the prompt, fed in pieces that end there, and behind each token."""
    slot = begun(model, PROMPT, pieces)
    start = pieces[-1] if pieces else 0
    found = [model.forward([slot], [start], torch.tensor([PROMPT[start:]]), 1)[0]]
    if at_once:
        found.append(model.forward([slot], [len(PROMPT)], torch.tensor([ANSWER]), len(ANSWER))[0])
    else:
        for place, token in enumerate(ANSWER, len(PROMPT)):
            found.append(model.forward([slot], [place], torch.tensor([[token]]), 1)[0])
    model.cache.release([slot])
    return torch.cat(found)


def test_however_the_prompt_is_fed_and_the_answer_verified(load: Load) -> None:
    alone = answered(load(exact=True))
    for pieces in ((1,), (EXACT_BLOCK,), (40, 100), (70, 71, EXACT_BLOCK * 2 + 8)):
        assert torch.equal(answered(load(exact=True), pieces), alone)
    assert torch.equal(answered(load(exact=True), at_once=True), alone)


def test_whatever_is_in_the_cache_or_beside_it(load: Load) -> None:
    alone = answered(load(exact=True))
    model = load(exact=True)
    chance = random.Random(3)
    slots = [begun(model, PROMPT) for _ in range(4)]
    others = [
        [*PROMPT[: chance.randint(1, len(PROMPT))], *chance.sample(range(8000), 90)] for _ in slots
    ]
    for slot, other in zip(slots, others, strict=True):
        model.forward([slot], [0], torch.tensor([other]), 1)
    assert torch.equal(answered(model), alone)
    model.cache.release(slots[1:3])
    assert torch.equal(answered(model, (30,)), alone)  # its own blocks are copied now
    # Beside others in one forward.
    slot = begun(model, PROMPT)
    model.forward([slot], [0], torch.tensor([PROMPT]), 1)
    together = sorted([slot, slots[0], slots[3]])
    starts = {slot: len(PROMPT), slots[0]: len(others[0]), slots[3]: len(others[3])}
    for place, token in enumerate(ANSWER):
        fed = torch.tensor([[token]] * 3)
        at = [starts[each] + place for each in together]
        logits = model.forward(together, at, fed, 1)
        assert torch.equal(logits[together.index(slot), 0], alone[1 + place])


def test_after_going_back(load: Load) -> None:
    alone = answered(load(exact=True))
    model = load(exact=True)
    slot = begun(model, PROMPT)
    model.forward([slot], [0], torch.tensor([PROMPT]), 1)
    model.forward([slot], [len(PROMPT)], torch.tensor([[ANSWER[0], 77, 78]]), 1)
    found = model.forward([slot], [len(PROMPT) + 1], torch.tensor([ANSWER[1:]]), 3)[0]
    assert torch.equal(found, alone[2:])


def test_when_the_cache_grows(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answered(load(exact=True))
    monkeypatch.setattr("dragon.inference.backends.llama_cpp.model._AT_FIRST_APART", 256)
    model = load(exact=True)
    slot = begun(model, PROMPT)
    model.forward([slot], [0], torch.tensor([PROMPT]), 1)
    long = begun(model, PROMPT)
    model.forward([long], [0], torch.tensor([PROMPT * 3]), 1)
    assert model._context.positions == 512
    found = model.forward([slot], [len(PROMPT)], torch.tensor([ANSWER]), len(ANSWER))[0]
    assert torch.equal(found, alone[1:])
