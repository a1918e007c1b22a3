"""The workload: prompts in order, windows of 64 tokens, documents in turn."""

from __future__ import annotations

import json
import lzma
import math
from pathlib import Path

import numpy as np
import pytest

from bench.lib import workload
from bench.lib.workload import WINDOW_TOKENS
from dragon.inference.tokenizer import Tokenizer
from harness.fixed_documents import Query
from harness.models import SMALL_MODEL
from harness.reference import Passage
from tests.samples import embedder, prose


def test_prompts_come_in_order_as_instruction_and_input(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    rows = [("Add.", "1 and 1"), ("Say hello.", ""), ("Stop.", "")]
    lines = [{"instruction": i, "instances": [{"input": x, "output": ""}]} for i, x in rows]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert workload.read_prompts(path, 2) == ["Add.\n\n1 and 1", "Say hello."]


def test_windows_are_parts_of_the_text_with_64_tokens(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    text = prose(400)
    path = tmp_path / "train.txt.xz"
    path.write_bytes(lzma.compress(text.encode()))
    windows = workload.read_windows(path, tokenizer, 20)
    assert windows == workload.read_windows(path, tokenizer, 20)
    assert len(set(windows)) > 10
    for window in windows:
        assert window in text
        assert abs(len(tokenizer.encode(window)) - WINDOW_TOKENS) <= 1


def test_the_nearest_windows_go_to_both_sides_in_turn() -> None:
    windows = [
        "Bread is baked from flour, water and yeast.",
        "The parliament met to vote on the new law.",
        "A cake of flour and sugar is baked in an oven.",
        "Dough rises when yeast makes it full of gas.",
        "The river floods its valley every spring.",
        "Pastry is dough of flour and butter.",
    ]
    (query,) = workload.match(["How is bread baked from flour and yeast?"], windows, embedder())
    nearest = [query.device[0], query.cloud[0], query.device[1], query.cloud[1]]
    assert nearest[0].text == windows[0]
    assert {passage.text for passage in nearest} == {windows[i] for i in (0, 2, 3, 5)}
    assert nearest == sorted(nearest, key=lambda passage: -passage.score)


@pytest.mark.parametrize("eta", [0.2, 0.5])
def test_the_device_can_be_given_a_weight(eta: float) -> None:
    passages = (Passage("One.", 0.9), Passage("Two.", 0.1))
    query = workload.weighed(Query("Which?", passages, passages), eta)
    device, cloud = (
        np.logaddexp.reduce([passage.relevance for passage in side])
        for side in (query.device, query.cloud)
    )
    assert 1 / (1 + math.exp(cloud - device)) == pytest.approx(eta)
    assert [passage.text for passage in query.device] == ["One.", "Two."]
