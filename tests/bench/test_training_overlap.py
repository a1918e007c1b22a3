"""The questions of the two-sided benchmark are unknown to training."""

from __future__ import annotations

from bench.tools import training_overlap
from harness.services import DEMO_CORPUS
from harness.two_sided import QUESTIONS
from training.texts import FOLDER


def test_nothing_that_is_measured_was_written_for_training() -> None:
    measured = training_overlap.measured_grams(QUESTIONS, DEMO_CORPUS)
    shared = {
        measured[gram]: path.name
        for path in FOLDER.rglob("*.jsonl")
        for batch in training_overlap.training_grams(path)
        for gram in batch
        if gram in measured
    }
    assert not shared
