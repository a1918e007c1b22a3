"""The questions of the two-sided benchmark are unknown to training."""

from __future__ import annotations

import random

from bench.tools import training_overlap
from bench.tools.training_overlap import grams_of, words_of
from harness.services import DEMO_CORPUS
from harness.two_sided import QUESTIONS, read
from training.data.sources import open_facts
from training.data.written import FOLDER

DOCUMENTS = 6000


def test_training_makes_none_of_the_wordings() -> None:
    """Runs of eight words, and whole questions where they are shorter."""
    measured = training_overlap.measured_grams(QUESTIONS, DEMO_CORPUS)
    whole = {tuple(words_of(question.text)) for question in read(QUESTIONS)}
    facts, rng = open_facts("train", None), random.Random(17)
    made: set[tuple[str, ...]] = set()
    asked: set[tuple[str, ...]] = set()
    for _ in range(DOCUMENTS):
        document = facts.document(rng)
        texts = [document.text]
        if question := facts.question(document, rng.choice(document.facts), rng):
            texts.append(question)
            asked.add(tuple(words_of(question)))
        for text in texts:
            made.update(grams_of(words_of(text)))
    assert len(made) > 10 * DOCUMENTS
    assert not made & measured.keys()
    assert not asked & whole


def test_nothing_that_is_measured_was_written_for_training() -> None:
    measured = training_overlap.measured_grams(QUESTIONS, DEMO_CORPUS)
    shared = {
        measured[gram]: path.name
        for path in FOLDER.glob("*.jsonl")
        for batch in training_overlap.training_grams(path)
        for gram in batch
        if gram in measured
    }
    assert not shared
