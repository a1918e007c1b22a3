"""The slope that predicts a text best, and scores of a text under prefixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from dragon.errors import ConfigurationError
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.profile import Calibration, DecodeFit, Gain, Profile
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.calibration import (
    LEAST_WINDOWS,
    SLOPES,
    Prefix,
    Rows,
    Window,
    calibrate,
    calibrated,
    log_likelihoods,
    score,
    slope_of,
    spread,
)
from dragon.retrieval.relevance import SLOPE
from harness.letters import Letters
from tests import tiny

WINDOW = Window(tuple(range(40, 48)), tuple(range(60, 80)), (True,) * 20)


def planted(slope: float, tokens: int = 400) -> list[Rows]:
    """Windows whose tokens are drawn from the mixture of four rows with this slope."""
    chance = torch.Generator().manual_seed(3)
    windows = []
    for _ in range(24):
        cosines = torch.rand(4, generator=chance, dtype=torch.float64)
        logits = 4 * torch.randn(4, tokens, 20, generator=chance, dtype=torch.float64)
        rows = torch.softmax(logits, -1)
        mixed = (torch.softmax(slope * cosines, 0)[:, None, None] * rows).sum(0)
        drawn = torch.multinomial(mixed, 1, generator=chance)
        log_p = rows.gather(-1, drawn.expand(4, -1, -1))[..., 0].log()
        windows.append(Rows(log_p, cosines))
    return windows


@pytest.mark.parametrize("slope", [0.0, 3.0, 12.0])
def test_the_planted_slope_is_found(slope: float) -> None:
    windows = planted(slope)
    found = calibrated(windows, "e")
    assert found.slope == pytest.approx(slope, abs=0.5, rel=0.15)
    likely = log_likelihoods(windows, [n / 10 for n in range(600)]).sum(1)
    assert found.slope == pytest.approx(int(likely.argmax()) / 10, abs=0.5, rel=0.05)
    assert (found.windows, found.tokens) == (24, 24 * 400)


def test_the_default_is_kept_unless_another_is_surely_better() -> None:
    windows = planted(SLOPE, tokens=3)
    likely = log_likelihoods(windows, SLOPES).sum(1)
    assert SLOPES[int(likely.argmax())] != SLOPE
    found = calibrated(windows, "e")
    assert (found.slope, found.over_default) == (SLOPE, Gain(nats=0.0, stderr=0.0))


def test_a_likelihood_is_that_of_the_mixture() -> None:
    (rows, *_) = planted(4.0, tokens=5)
    weights = [math.exp(4.0 * cosine) for cosine in rows.cosines.tolist()]
    expected = sum(
        math.log(sum(w * math.exp(p) for w, p in zip(weights, each, strict=True)) / sum(weights))
        for each in rows.log_p.T.tolist()
    )
    assert log_likelihoods([rows], [4.0]).item() == pytest.approx(expected)


def test_gains_are_a_token_with_the_error_of_pairs() -> None:
    windows = planted(12.0)
    found = calibrated(windows, "e")
    best, uniform = log_likelihoods(windows, [found.slope, 0.0])
    each = (best - uniform) / 400
    assert found.over_uniform.nats == pytest.approx(float(each.mean()))
    assert found.over_uniform.stderr == pytest.approx(float(each.std()) / math.sqrt(24))


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.load(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("model"), context=2048, layers=1)


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return LanguageModel.load(path, tiny.VOCABULARY)


def text(words: int) -> str:
    return " ".join(f"keeper{n % 13} {'lamp' if n % 3 else 'oil'}" for n in range(words // 2))


def test_texts_are_cut_searched_and_scored(model: LanguageModel, tokenizer: Tokenizer) -> None:
    said = list[tuple[int, int]]()
    found = calibrate(
        [text(1100), text(1200)], tokenizer, model, Letters(),
        progress=lambda done, of: said.append((done, of)),
    )  # fmt: skip
    assert found.windows == 8
    assert said[-1] == (8, 8)
    assert found.embedder == Letters().fingerprint
    assert model.cache.free == model.cache.slots


def test_a_text_may_repeat_itself(model: LanguageModel, tokenizer: Tokenizer) -> None:
    found = calibrate(["keeper lamp. " * 1050, text(256)], tokenizer, model, Letters())
    assert found.windows == LEAST_WINDOWS + 1


def test_short_texts_are_refused(model: LanguageModel, tokenizer: Tokenizer) -> None:
    short = text(256 * LEAST_WINDOWS - 64)
    with pytest.raises(ConfigurationError, match="2,048 words"):
        calibrate([short], tokenizer, model, Letters())


def test_windows_are_spread_evenly() -> None:
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread(range(3), 4) == [0, 1, 2]
    assert spread([], 4) == []


def test_a_number_counts_with_its_embedder_alone() -> None:
    gain = Gain(nats=0.0, stderr=0.0)
    made = Calibration(
        slope=3.0, embedder="e", windows=8, tokens=9, over_uniform=gain, over_default=gain
    )
    fit = DecodeFit.of([10, 20], [0.1, 0.2])
    profile = Profile(model="m", rows=2, decode=fit, calibration=made)
    assert slope_of(profile, "e") == 3.0
    assert slope_of(profile, "another") == SLOPE
    assert slope_of(Profile(model="m", rows=2, decode=fit), "e") == SLOPE
    assert slope_of(None, "e") == SLOPE


def slow(path: Path, tokens: Sequence[int]) -> torch.Tensor:
    """Log probabilities of the window's targets after other tokens, without slots or batches."""
    network = AutoModelForCausalLM.from_pretrained(str(path))
    whole = [*tokens, *WINDOW.query, *WINDOW.target]
    with torch.inference_mode():
        log_p = torch.log_softmax(network(torch.tensor([whole])).logits[0].double(), -1)
    first = len(whole) - len(WINDOW.target)
    return torch.stack([log_p[i - 1, whole[i]] for i in range(first, len(whole))])


def test_scores_equal_those_of_the_whole_sequence(path: Path, model: LanguageModel) -> None:
    prefixes = [Prefix(), Prefix(tuple(range(5, 25))), Prefix((7,))]
    scores = score(model, [*prefixes, prefixes[1]], WINDOW)
    for prefix in prefixes:
        torch.testing.assert_close(scores[prefix], slow(path, prefix.tokens), atol=1e-4, rtol=0)
    assert model.cache.free == model.cache.slots


def test_rounded_keys_and_values_change_little(model: LanguageModel) -> None:
    exact, rounded = Prefix(tuple(range(5, 25))), Prefix(tuple(range(5, 25)), 12)
    scores = score(model, [exact, rounded], WINDOW)
    difference = (scores[exact] - scores[rounded]).abs().max()
    assert 0 < difference < 0.5
