"""Questions in two steps, and the notes that they begin with."""

from __future__ import annotations

import random

import pytest

from dragon.retrieval.lexical import coverage
from training.data.chains import ChainSource
from training.data.slots import SlotFiller, read_lists
from training.data.sources import SCHEMAS


@pytest.fixture(scope="module")
def chains() -> ChainSource:
    lists = read_lists(SCHEMAS / "words.txt")
    return ChainSource(SCHEMAS / "chains.txt", SlotFiller(lists))


def test_a_question_describes_what_its_note_names(chains: ChainSource) -> None:
    rng = random.Random(1)
    for _ in range(300):
        chain = chains.draw(rng)
        assert chain.question.endswith("?")
        assert not set("{}[]|") & set(chain.question + chain.note)
        assert 0.0 < coverage(chain.question, chain.note) < 1.0
        assert chain.note not in chain.others
        assert chain.others


def test_every_topic_is_asked_for(chains: ChainSource) -> None:
    assert {schema.topic for schema in chains.relations} == set(chains.asked)


def test_the_same_seed_draws_the_same(chains: ChainSource) -> None:
    assert chains.draw(random.Random(7)) == chains.draw(random.Random(7))
