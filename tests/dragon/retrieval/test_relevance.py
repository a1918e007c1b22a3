from __future__ import annotations

import math

import pytest

from dragon.retrieval import relevance as scale
from dragon.retrieval.find import LineReader
from dragon.retrieval.relevance import BARE_RELEVANCE, probability, relevance
from tests.samples import embedder, hits, judge

NOTES = (
    "Moved into the flat. The router sits behind the bookshelf, passcode K7-QX41.",
    "Dentist: Tuesday 14 May, 08:50, with Dr Okonjo. Bring last year's X-ray.",
    "Gym opens at six on weekdays. Mine is locker 118 and the code is 4096-B.",
    "Biscuit goes to Dr Amadi's practice on Mill Road for his shots.",
)
FACTS = (
    "Lake Baikal. Lake Baikal in Siberia is the deepest lake on Earth, 1,642 metres deep.",
    "Bhutan. Bhutan is a kingdom in the Himalayas. Its capital is Thimphu.",
    "Hedgehog. A grown hedgehog has about 5,000 spines and rolls up when it is in danger.",
    "Velcro. The Swiss engineer George de Mestral invented Velcro in 1941.",
)
ASKED_OF_NOTES = (
    "What do I type in to get on the wifi at home?",
    "What time do I have to be at the dentist?",
    "How do I open my locker at the gym?",
    "Which vet do we take Biscuit to?",
)
ASKED_OF_FACTS = (
    "How deep does Lake Baikal go?",
    "What's the capital city of Bhutan?",
    "How many spines has a hedgehog got?",
    "Who came up with Velcro?",
)


def log_h(question: str, texts: tuple[str, ...]) -> float:
    """log of a side's summed relevance, as the engine takes it."""
    found = hits([(text, "") for text in texts])
    near = {hit.id: [hit] for hit in found}
    reader = LineReader(judge(), embedder())
    nats = [hit.relevance for hit in reader.answering([question], found, near)]
    return math.log(sum(math.exp(each) for each in nats or [BARE_RELEVANCE]))


@pytest.mark.parametrize("question", [*ASKED_OF_NOTES, *ASKED_OF_FACTS])
def test_the_side_whose_texts_answer_gets_the_weight(question: str) -> None:
    difference = log_h(question, NOTES) - log_h(question, FACTS)
    if question in ASKED_OF_FACTS:
        difference = -difference
    assert 1 / (1 + math.exp(-difference)) > 0.9


def test_a_score_is_a_probability_and_relevance_its_log_odds() -> None:
    odds = [scale.LOWEST, -2.5, 0.0, 1.0, scale.HIGHEST]
    scores = [probability(each) for each in odds]
    assert scores == sorted(set(scores))
    assert [relevance(each) for each in scores] == pytest.approx(odds)
    assert probability(-1000.0) == scores[0]
    assert (relevance(0.0), relevance(1.0)) == (scale.LOWEST, scale.HIGHEST)


@pytest.mark.parametrize(
    "place",
    [
        *(f"relevance.{name}" for name in ("WORDS", "LOWEST", "HIGHEST")),
        *(f"relevance.{name}" for name in ("LOGIT", "COSINE", "BIAS", "LEAST", "BARE_RELEVANCE")),
        *("lexical.RULES", "query_parsing.RULES", "query_parsing.COURTESIES"),
    ],
)
def test_the_scale_is_named_with_all_that_makes_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scale.scale_of("a", "r")
    assert before == scale.scale_of("a", "r")
    assert before not in (scale.scale_of("b", "r"), scale.scale_of("a", "s"))
    monkeypatch.setattr(f"dragon.retrieval.{place}", "another")
    assert scale.scale_of("a", "r") != before
