"""The embedded judge, and its network."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dragon.errors import ConfigurationError
from dragon.models import EMBEDDED_JUDGE
from dragon.retrieval.judge import (
    MOST_TOKENS,
    NOTES,
    WEIGHTS,
    EncodedPair,
    Judge,
    Line,
    PaddedPairs,
    Whose,
    outcomes,
    whose,
)
from tests.samples import judge

LINES = (
    Line("The boiler is in the cellar.", "The house"),
    Line("Dr Amadi vaccinates the cat."),
    Line("The spare key hangs behind the meter."),
)


def test_the_line_that_answers_comes_first() -> None:
    for question, right in (
        ("Where do I find the extra key?", 2),
        ("Which vet gives the cat its shots?", 1),
    ):
        (logits,) = judge().logits(question, [LINES])
        assert logits.shape == (3,)
        assert int(logits.argmax()) == right


def test_passages_are_judged_alike_alone_and_together() -> None:
    question = "Where is the boiler?"
    passages = [LINES, LINES[1:], LINES[:1]]
    together = judge().logits(question, passages)
    for passage, logits in zip(passages, together, strict=True):
        (alone,) = judge().logits(question, [passage])
        assert np.allclose(alone, logits, atol=1e-4)
    assert judge().logits(question, []) == []


def test_a_line_beyond_the_limit_cannot_answer() -> None:
    long = Line("word " * 2 * MOST_TOKENS)
    (logits,) = judge().logits("Where is the key?", [[long, LINES[2]]])
    assert np.isneginf(logits[1])


def test_greetings_need_no_document_and_questions_do() -> None:
    for message in ("Hi there!", "thanks a lot", "who are you?", "Tell me a joke"):
        assert judge().needless(message) > 0
    for message in ("When is the rent due?", "What is my landlord's number?"):
        assert judge().needless(message) < 0


def test_a_script_that_it_was_not_taught_is_not_judged() -> None:
    for question in ("鍵はどこですか？", "Где лежит ключ?"):
        (logits,) = judge().logits(question, [[Line("The key hangs on a nail.")]])
        assert (list(logits), judge().needless(question)) == ([0.0], -np.inf)
    assert judge().logits("E28?", [[Line("E28: no flame.")]])[0].all()


def test_none_and_the_lines_are_one_distribution() -> None:
    made = outcomes(torch.tensor([[1.0, -torch.inf], [0.0, 2.0]])).exp()
    assert made.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert made[0, 2] == 0.0


def test_rows_are_padded() -> None:
    batch = PaddedPairs.of(
        [EncodedPair([1, 2, 3], [0, 1, 1], [-1, 0, 0]), EncodedPair([4], [0], [-1])], 4
    )
    assert batch.tokens.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert batch.mask.sum(1).tolist() == [3, 1]
    assert batch.lines.max() == 0


@pytest.mark.parametrize("name", [*WEIGHTS, NOTES])
def test_files_that_are_missing_or_damaged_are_named(tmp_path: Path, name: str) -> None:
    copied = tmp_path / "judge"
    shutil.copytree(EMBEDDED_JUDGE, copied)
    data = bytearray((copied / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copied / name).write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"^RERANKER: "):
        Judge.load(copied)
    (copied / name).unlink()
    with pytest.raises(ConfigurationError, match="has no whole judge"):
        Judge.load(copied)


OWN = ("When is our rent due?", "Which locker is Hannah's?", "What does the lease say on pets?")
WORLD = (
    "How tall does a giraffe get?",
    "What is the capital of Norway?",
    "who painted the Mona Lisa",
)
BOTH = (
    "What is the capital of the country our au pair comes from?",
    "Who composed the piece that Lena plays at the concert?",
    "How high is the mountain we climb in August?",
)
UNREAD = ("Wann ist die Miete fällig?", "¿Cuándo vence el contrato?", "Wie hoch wird eine Giraffe?")


@pytest.mark.parametrize("question", OWN)
def test_what_is_asked_of_ones_own_matters_is_left_to_the_lines(question: str) -> None:
    matter = whose(question, judge())
    assert matter.own > 0
    assert matter.prior == 0.0
    assert not matter.leans


@pytest.mark.parametrize("question", WORLD)
def test_what_anybody_may_ask_needs_a_surer_line(question: str) -> None:
    matter = whose(question, judge())
    assert matter.prior < -0.5
    assert not matter.leans


@pytest.mark.parametrize("question", BOTH)
def test_what_leans_on_ones_own_matters_is_told_from_both(question: str) -> None:
    assert whose(question, judge()).leans


@pytest.mark.parametrize("question", UNREAD)
def test_of_a_language_that_it_does_not_read_it_says_nothing(question: str) -> None:
    matter = whose(question, judge())
    assert matter.own == pytest.approx(0.0, abs=0.2)
    assert not matter.leans


def test_another_judge_says_nothing() -> None:
    other: Any = SimpleNamespace(fingerprint="another")
    assert whose(WORLD[0], other) == Whose()
