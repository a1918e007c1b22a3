"""Perplexity: fast figures against slow ones, and the text against what is read of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from bench.experiments.perplexity import followed, gain, jackknife, perplexity, table
from bench.lib import wikitext
from bench.lib.teacher_forcing import (
    CONTEXT_TOKENS,
    Case,
    Systems,
    sequencewise,
    tokenwise,
)
from bench.lib.wikitext import Corpus
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.retrieval.calibration import Prefix, Window, score
from harness.letters import Letters
from tests import tiny

WINDOW = Window(tuple(range(40, 48)), tuple(range(60, 80)), (True,) * 15 + (False,) * 5)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return LanguageModel.load(path, tiny.VOCABULARY)


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.load(path)


def test_two_sides_mix_to_one_softmax_over_all_rows() -> None:
    log_p = torch.log(torch.rand(6, 9, dtype=torch.float64))
    static = torch.tensor([[5.0], [3.5], [3.0], [2.0], [1.0], [0.0]]).double()
    changing = torch.rand(6, 9, dtype=torch.float64)
    for relevance in (static, changing):
        expected = float((torch.softmax(relevance, 0) * log_p.exp()).sum(0).log().sum())
        assert tokenwise(log_p, relevance) == pytest.approx(expected)


def test_relevance_follows_the_text() -> None:
    again = Rescoring(4, lambda text: [float(len(text)), float(sum(text))])
    got = followed(torch.tensor([[0.5], [1.5]]).double(), again, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert got[0].tolist() == [0.5] * 4 + [4.0] * 4 + [8.0] * 2
    assert got[1].tolist() == [1.5] * 4 + [10.0] * 4 + [36.0] * 2


def test_sequencewise_follows_the_side_that_knows_the_window() -> None:
    certain, lost = torch.zeros(1, 50).double(), torch.full((1, 50), -5.0).double()
    rows, even = torch.cat([lost, certain]), torch.zeros(2, 1).double()
    assert sequencewise(rows, even) == pytest.approx(math.log(0.5))
    assert tokenwise(rows, even) == pytest.approx(50 * math.log(0.5 * (1 + math.exp(-5))))


def test_systems_see_their_own_passages(model: LanguageModel, tokenizer: Tokenizer) -> None:
    passages = tuple(tuple(range(100 * i, 100 * i + 40)) for i in range(1, 17))
    systems = Systems(model, tokenizer, [0, 1, 8])
    cosines = torch.linspace(1, 0, 16).double()[:, None]
    outcome = systems.predict(Case(WINDOW, passages, cosines), [32, 0])
    before = tuple(tokenizer.bare_row(raw=True))
    after = tuple(tokenizer.encode("\n\n"))

    def expected(tokens: Sequence[int]) -> float:
        prefix = Prefix((*before, *tokens, *after))
        return float(score(model, [prefix], WINDOW)[prefix][:15].sum())

    assert outcome["CRCG/cloud", 1] == pytest.approx(expected(passages[0]), abs=1e-3)
    assert outcome["rows/cloud", 1] == pytest.approx(expected(passages[0]), abs=1e-3)
    assert outcome["rows/device", 1] == pytest.approx(expected(passages[1]), abs=1e-3)
    assert outcome["CRCG/device", 1] == pytest.approx(expected(passages[1]), abs=1e-3)
    both = [token for passage in passages for token in passage][:CONTEXT_TOKENS]
    assert outcome["DRCG/Text", 8] == pytest.approx(expected(both), abs=1e-3)
    assert {name for name, k in outcome if k == 0} == {"none"}
    # With a slope of 32 the nearest passage has nearly all weight, with none each has as much.
    nearest = expected(passages[0])
    assert abs(outcome["DRAGON", 1] - nearest) < abs(outcome["DRAGON/0", 1] - nearest)


def test_windows_roll_over_the_text_and_leave_out_removed_words(tokenizer: Tokenizer) -> None:
    lines = [f"The {n}th keeper of <unk> wrote {n * n} letters." for n in range(60)]
    found = wikitext.windows(lines, tokenizer, 64)
    tokens = tokenizer.encode("\n".join(lines))
    predicted = [token for window in found for token in window.target]
    assert predicted == tokens[8 : 8 + len(predicted)]
    assert len(tokens) - len(predicted) < 64 + 8
    for window in found:
        left_out = [t for t, kept in zip(window.target, window.scored, strict=True) if not kept]
        text = tokenizer.decode(window.target)
        assert len(left_out) >= 3 * text.count("<unk>") > 0
        assert "keeper" not in tokenizer.decode(left_out)


def test_the_corpus_finds_by_words_and_ranks_by_cosine() -> None:
    lines = ["too short", " ".join(f"lobster{i % 7}" for i in range(100)), "otter " * 12]
    texts = wikitext.passages(lines)
    assert [len(text.split()) for text in texts] == [64, 36, 12]
    corpus = Corpus([*texts, "zzz otter"], Letters())
    found = corpus.search('an "otter", said she', 2)
    assert [passage.text for passage in found] == [texts[2].strip(), "zzz otter"]
    assert 1 >= found[0].cosine > found[1].cosine


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    outcomes = [{("none", 0): value} for value in (3.0, 1.0, 4.0, 1.0, 5.0)]
    mean = statistics.fmean
    error = jackknife(lambda kept, _: mean(o["none", 0] for o in kept), outcomes, [1] * 5)
    values = [o["none", 0] for o in outcomes]
    assert error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))
    assert jackknife(lambda kept, _: mean(o["none", 0] for o in kept), outcomes[:1], [1]) is None


def test_gain_compares_with_the_best_centralised_system() -> None:
    def outcome(none: float, dragon: float, best: float) -> dict[tuple[str, int], float]:
        names = {"DRAGON": dragon, "CRCG/device": best, "CRCG/cloud": best - 1}
        names |= {"DRCG/Text": best - 2, "DRCG/KV": best - 3}
        names |= {"rows/cloud": dragon - 2, "rows/device": dragon - 1}
        return {("none", 0): none} | {(name, 8): value for name, value in names.items()}

    better = [outcome(-30.0, -20.0, -25.0)] * 2
    none, dragon, best = (math.exp(x) for x in (3.0, 2.0, 2.5))
    assert perplexity(better, [10, 10], ("none", 0)) == pytest.approx(none)
    assert gain(better, [10, 10], 8) == pytest.approx((none - dragon) / (none - best))
    worse = [outcome(-30.0, -20.0, -35.0)] * 2
    assert gain(worse, [10, 10], 8) is None
    row = next(row for row in table(worse, [10, 10]) if row["system"] == "DRAGON")
    assert row["below_best"] == pytest.approx(math.exp(3.5) - math.exp(2))
    assert row["below_stderr"] == pytest.approx(0)
    assert row["below_side"] == pytest.approx(math.exp(2.1) - math.exp(2))
    assert row["side_stderr"] == pytest.approx(0)
    assert row["gain"] is None
    assert row["gain_stderr"] is None
    assert row["tokens"] == 20
