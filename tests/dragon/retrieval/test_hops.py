"""When a sentence is gone on with, and with which passages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragon.retrieval.hops import SCORE, OpenQuestion

FLIGHT = OpenQuestion(
    "What is the capital of the country I fly to in June?",
    "I fly to Bhutan on 14 June.",
    "I fly to Bhutan on 14 June.",
)


def test_what_is_missing_is_asked_for_with_what_was_brought() -> None:
    assert FLIGHT.wanted
    assert FLIGHT.query == "capital country bhutan 14"


@pytest.mark.parametrize(
    ("passage", "score", "goes_on"),
    [
        ("The capital of Bhutan is Thimphu.", SCORE, True),
        ("Bhutanese people speak Dzongkha.", SCORE, True),
        ("The capital of Bhutan is Thimphu.", SCORE - 0.01, False),
        ("The Turkish capital is Ankara.", 1.0, False),
        ("Chapter 14 is about capitals.", 1.0, False),
        ("On 14 June I fly to Bhutan!", 1.0, False),
    ],
)
def test_a_passage_has_to_name_what_was_brought(passage: str, score: float, goes_on: bool) -> None:
    assert FLIGHT.answered_by(passage, score) is goes_on


@pytest.mark.parametrize(
    ("question", "written", "passage"),
    [
        (
            "At what temperature did the marmalade set?",
            "Set at 104.5 degrees.",
            "The surface of the Sun has a temperature near 5,500 degrees Celsius.",
        ),
        (
            "What do they pay with in Peru?",
            "For Peru you need a pass, which costs 620 euros.",
            "People in France pay with the euro.",
        ),
        (
            "At what weight must I wake up the tortoise?",
            "He gets weighed every Sunday; below 840 grams he has to be woken up.",
            "A large Galapagos tortoise weighs over 250 kilograms.",
        ),
    ],
)
def test_a_unit_or_a_form_of_what_was_asked_names_nothing(
    question: str, written: str, passage: str
) -> None:
    assert not OpenQuestion(question, written, written).answered_by(passage, 1.0)


@pytest.mark.parametrize(
    ("question", "written", "source"),
    [
        # All of the question is in the text.
        ("When do I fly to Bhutan?", "I fly to Bhutan on 14 June.", "I fly to Bhutan on 14 June."),
        # What the text leaves out its source has.
        ("Which airline flies to Paro?", "Drukair.", "Airline that flies to Paro: Drukair."),
        # It was not written from a passage.
        ("Who won the match?", "I could not find that in the documents.", "Bhutan has a king."),
        ("Hi there", "Hello! What would you like to know?", "The code of the door is 41."),
        ("What is it?", "The code of the door is 41.", "The code of the door is 41."),
    ],
)
def test_nothing_is_asked_for(question: str, written: str, source: str) -> None:
    assert not OpenQuestion(question, written, source).wanted


@pytest.mark.parametrize(
    ("question", "written", "offered"),
    [
        # The answer has other words than the question.
        ("How much did the roof repair cost?", "The bill for the roof came to 2,340 euros.", False),
        ("When will Biscuit be operated on?", "Biscuit may have surgery in January.", False),
        ("What are the names of Anna's pets?", "Anna has two cats, Pixel and Moss.", False),
        ("Who charged us for the boiler that broke?", "The boiler cost 90 euros.", False),
        # The thing itself was asked for, and its name is the thing.
        ("What is the novel that our club is reading?", "Our club is reading Middlemarch.", False),
        ("What is the name of the novel I am reading?", "I am reading Middlemarch.", False),
        ("What's the title of the novel I read?", "I read Middlemarch.", False),
        # A thing was told from its description, and not what was asked of it.
        ("Who wrote the novel that our club is reading?", "Our club is reading Middlemarch.", True),
        ("Which country does the island we visit belong to?", "We visit Gotland in May.", True),
        ("What do people speak in the city Anna lives in?", "Anna lives in Oslo.", True),
        ("What is the population of the town where Anna lives?", "Anna lives in Oslo.", True),
        # A question was left.
        ("How high is K2, and what does the roof cost?", "The roof cost 2,340 euros.", True),
    ],
)
def test_the_cloud_is_offered_for_what_is_open_not_for_other_words(
    question: str, written: str, offered: bool
) -> None:
    assert OpenQuestion(question, written, written).offered is offered


NAIROBI = "Nairobi is the capital of Kenya."
SAFE = "The key safe code is 7731-M and it hangs left of the door."
JOINED = "What is the capital of Kenya, and what is the code of the key safe?"


@pytest.mark.parametrize(
    ("written", "left", "passage"),
    [
        (NAIROBI, "what is the code of the key safe?", SAFE),
        (SAFE, "What is the capital of Kenya?", NAIROBI),
    ],
)
def test_of_joined_questions_the_one_left_is_asked(written: str, left: str, passage: str) -> None:
    after = OpenQuestion(JOINED, written, written)
    assert after.wanted
    assert after.query == left
    assert after.answered_by(passage, SCORE)
    assert not after.answered_by(written, 1.0)


@pytest.mark.parametrize(
    ("question", "written"),
    [
        # It may answer both, or be what the other one goes on from.
        (
            "When does the ferry to Naxos leave, and which gate is the ferry at?",
            "The ferry to Naxos leaves at 7.30 from gate E2.",
        ),
        (
            "What is the capital of the country I fly to in June, and when do I fly?",
            "I fly to Bhutan on 14 June.",
        ),
        # Nothing says which of the two it answers.
        (
            "What is the capital of Kenya, and when do we have to be at the airport?",
            "Check-in ends at 7.30 in terminal 2.",
        ),
    ],
)
def test_of_joined_questions_none_is_left_that_the_text_may_have_to_do_with(
    question: str, written: str
) -> None:
    assert not OpenQuestion(question, written, written).left


def test_of_ones_own_documents_a_question_is_asked_that_the_text_names_something_of() -> None:
    question = "What does the plot cost, and who has the spare key?"
    after = OpenQuestion(question, "Mr Teague on plot 19 has the spare key.", "The spare key.")
    assert after.left == ()
    assert replace(after, own=True).left == ("What does the plot cost",)


def test_a_root_of_what_was_asked_answers_it() -> None:
    question = "What is the capital of Kenya, and what is the capital of Peru?"
    after = OpenQuestion(question, "Nairobi is the Kenyan capital.", NAIROBI)
    assert after.left == ("what is the capital of Peru?",)


def test_what_is_left_may_be_answered_in_the_same_words() -> None:
    asked = "When does the library close, and when does the pool close?"
    after = OpenQuestion(asked, "The library closes at 6.", "The library closes at 6.")
    assert after.left == ("when does the pool close?",)
    assert after.answered_by("The pool closes at 6.", SCORE)


def test_what_is_left_tells_nothing_of_the_source() -> None:
    asked = "What is the capital of Kenya? What is the alarm code? When is my biopsy?"
    written = "The alarm code is 4471."
    queries = {
        OpenQuestion(asked, written, f"{written} {more}").query for more in ("", "Biopsy: 3 May.")
    }
    assert queries == {"What is the capital of Kenya? When is my biopsy?"}


def test_the_query_tells_nothing_of_the_source() -> None:
    source = "Airline to Bhutan: Drukair, code 7731."
    short = OpenQuestion("Which airline takes me?", "Drukair.", source)
    assert short.query == "airline takes drukair"
