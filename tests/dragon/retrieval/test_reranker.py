"""The reranker: loading it, and what it says of questions and passages.

Covers `dragon.retrieval.cross_encoder`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from dragon.errors import ConfigurationError
from dragon.retrieval.reranker import EMBEDDED_RERANKER, WEIGHTS, Reranker, save
from tests.samples import reranker

QUESTION = "Where is the spare key?"
PASSAGES = [
    "The spare key hangs under the third flowerpot.",
    "The car is in the garage. (To do)",
    "The choir meets on Tuesdays, and whoever comes late brings the cake for all the others.",
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(EMBEDDED_RERANKER, tmp_path / "reranker")
    return tmp_path / "reranker"


def test_the_passage_that_answers_gets_the_highest_logit() -> None:
    logits = reranker().logits(QUESTION, PASSAGES)
    assert (logits.dtype, logits.shape, logits.argmax()) == (np.float64, (3,), 0)
    assert reranker().logits(QUESTION, []).shape == (0,)


def test_a_passage_read_alone_gets_the_logit_it_gets_among_others() -> None:
    together = reranker().logits(QUESTION, PASSAGES)
    alone = [reranker().logits(QUESTION, [passage])[0] for passage in PASSAGES]
    assert np.allclose(together, alone, atol=1e-4)


def test_long_questions_and_passages_are_cut() -> None:
    logits = reranker().logits("word " * 5000, ["word " * 5000, ""])
    assert np.isfinite(logits).all()


def test_what_was_saved_loads(copy: Path) -> None:
    first = Reranker.load(copy)
    assert first.fingerprint == reranker().fingerprint
    save(first._network, copy / "again")
    again = Reranker.load(copy / "again").logits(QUESTION, PASSAGES)
    assert np.array_equal(again, reranker().logits(QUESTION, PASSAGES))


def test_weights_that_are_missing_or_damaged_are_told(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="RERANKER: there is no"):
        Reranker.load(tmp_path)
    weights = (copy / WEIGHTS).read_bytes()
    for damaged in (
        b"",
        weights[: len(weights) // 2],
        weights[:-9] + bytes([weights[-9] ^ 64]) + weights[-8:],
    ):
        (copy / WEIGHTS).write_bytes(damaged)
        with pytest.raises(ConfigurationError, match=r"RERANKER: .* damaged"):
            Reranker.load(copy)


def test_weights_of_another_network_are_refused(copy: Path) -> None:
    save_file(load_file(copy / WEIGHTS), copy / WEIGHTS, {"format": "pt", "base": "another"})
    with pytest.raises(ConfigurationError, match="another embedder"):
        Reranker.load(copy)
