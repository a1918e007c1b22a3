"""Two sides that different backends run draw from the distribution of torch alone, at T = 1.

A side that names the likeliest tokens has these as its distribution: so has torch's beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from dragon.inference.backends.backend import Backend
from dragon.inference.backends.model_server.dialects import LIKELIEST
from dragon.inference.choice import ModelChoice
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from harness.llama_server import serving
from harness.models import SMALL_MODEL

POSITIONS = 40
DRAWS = 200
# Two distributions mixed half and half: what one side read of the other's text has no part in it.
TEXTS = (
    "The lighthouse of Askham was built in 1848, and the keeper of it was",
    "The ferry to Askham leaves at noon. On Sundays, the",
)


def sides(model: Backend, slot: int, prompt: list[int], text: list[int], k: int) -> list[Side]:
    """The distributions at every position of a text behind a prompt: the likeliest k tokens."""
    logits = model.forward([slot], [0], torch.tensor([[*prompt, *text[:-1]]]), len(text))[0]
    values, tokens = logits.topk(k)
    kept = torch.full_like(logits, -torch.inf).scatter(-1, tokens, values)
    return [Side(cut(p.numpy()).wire, 0) for p in torch.softmax(kept, -1)]


def expected(device: Side, cloud: Side) -> np.ndarray:
    """Probabilities of the tokens of a half and half mixture, float64 [V]."""
    mixed = np.zeros(8192)
    for side in (device, cloud):
        mixed[side.wire.ids] += side.wire.weights / side.wire.weights.sum() / 2
    return mixed


def p_value(drawn: list[int], probabilities: np.ndarray) -> float:
    """Of a chi-square test; tokens that are hardly expected count as one."""
    counts = np.bincount(drawn, minlength=len(probabilities)).astype(float)
    often = probabilities * len(drawn) >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(probabilities[often], probabilities[~often].sum()) * len(drawn)
    kept = wanted > 0.5
    observed, wanted = observed[kept], wanted[kept]
    if len(observed) < 2:
        return 1.0
    return float(stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


@contextmanager
def running(name: str, gguf: Path, folder: Path, reference: Backend) -> Iterator[Backend]:
    """The model as a backend runs it."""
    if name == "torch":
        yield reference
        return
    with ExitStack() as stack:
        choice = ModelChoice(model=str(gguf), threads=1)
        if name == "server":
            server = stack.enter_context(serving(gguf, folder / "log"))
            choice = ModelChoice(model=server.url, tokenizer=str(SMALL_MODEL))
        model = choice.load()[1]
        stack.callback(model.close)
        yield model


@pytest.mark.parametrize("pair", [("gguf", "torch"), ("torch", "gguf"), ("server", "torch")])
def test_chi_square_over_forty_positions(
    pair: tuple[str, str], embedded_gguf: Path, tmp_path: Path
) -> None:
    tokenizer, reference = ModelChoice(model=str(SMALL_MODEL)).load()
    text = tokenizer.encode("kept the lamp through the winter of that year, " * 8)[:POSITIONS]
    found, wanted = [], []
    with ExitStack() as stack:
        for slot, (name, prompt) in enumerate(zip(pair, map(tokenizer.encode, TEXTS), strict=True)):
            model = stack.enter_context(running(name, embedded_gguf, tmp_path, reference))
            k = LIKELIEST if name != "torch" else tokenizer.vocab_size
            found.append(sides(model, slot, prompt, text, k))
            wanted.append(sides(reference, slot, prompt, text, k))
    samplings = [Sampling(1.0, seed=seed) for seed in range(DRAWS)]
    values = [
        p_value(
            [mixture.target(device, cloud, s, position) for s in samplings], expected(*references)
        )
        for position, (device, cloud, *references) in enumerate(zip(*found, *wanted, strict=True))
    ]
    assert len(values) == POSITIONS
    # Fisher's: all forty together.
    assert stats.combine_pvalues(values).pvalue > 0.001
