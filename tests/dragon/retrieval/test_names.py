"""What is named is met in any spelling, and by nothing that is merely like it."""

from __future__ import annotations

from datetime import date

import pytest
from babel.dates import format_date
from hypothesis import given
from hypothesis import strategies as st

from dragon.retrieval.names import meeting, month, names, spellings


def met(question: str, *texts: str) -> bool:
    """Whether a passage, and what it stands under, has what a question names."""
    return bool(meeting(question, [texts], list))


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("What happened on 2026-05-03?", "On 3 May 2026 the goat was sold."),
        ("What happened on 3 May 2026?", "2026-05-03 The goat was sold."),
        ("What happened on March 13th?", "13.03.2026: it recovered."),
        ("Was geschah am 3. März 2026?", "On March 3rd, 2026 it fell ill."),
        ("What happened in May 2026?", "2026-05-03 The goat was sold."),
        ("What was on 2026-11-03?", "11/03/2026 the lawn was mown."),
        ("Is ticket 1042 open?", "Ticket #1042 is closed. Ticket #10420 is open."),
        ("What is invoice AB123 for?", "Invoice ＡＢ１２３ is for the lamp."),
        ("What is order AB123X for?", "Order AB‑123‑X is for the red tent."),
        ("Who is in room 13?", "Rooms 12 and 13 are Anna's."),
        ("Who is in room 13?", "Rooms 12-14 are Anna's."),
        ("Whose number is 0151 2207?", "Anna's phone: +49 (151) 22-07."),
        ("When does LH 454 leave?", "LH454 leaves at 9."),
        ("Does the lift carry more than 300 kg?", "It carries 280 kg."),
        ("Which of them cost over 1500?", "The boat costs 2,000 euros."),
        ("What can I buy for 30 euros?", "A lamp."),
        ("What was the rent in 2024?", "From May 2024 on it was 410 euros."),
        ("Where do we sleep on 15 September?", "Tuesday 15 September: night train to Porto."),
        ("What was on Monday 14 September?", "14.09.2026: a walk."),
        ("What was on the 17th of September?", "17 Sept: a walk."),
        ("¿Qué hay el jueves 22 de mayo?", "22 May: picnic."),
    ],
)
def test_what_is_named_is_met(question: str, line: str) -> None:
    assert met(question, line)


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("What happened on 2026-04-03?", "2026-03-03 The goat fell ill."),
        ("What happened on 4 March 2026?", "On 3 March 2026 the goat fell ill."),
        ("What happened on 2026-05-03?", "It was sold in May 2026."),
        ("Is ticket 105 open?", "Ticket 1042 is closed. Ticket 104 is waiting."),
        ("What does part 4711-C cost?", "Part 4711-A costs 5 euros."),
        ("What does section 4.12 cover?", "Section 4.1 covers theft."),
        ("What does release 3.1.2 fix?", "Release 3.2.1 fixes the login."),
        ("What is version 2.1?", "Version 2.10 was released in May."),
        ("What has the address 10.0.0.21?", "The scanner has the address 10.0.0.210."),
        ("What is in room 13?", "Room 12 has 13 chairs."),
        ("What does a child in year 1 pay?", "Pottery is in Studio 1 on Mondays."),
        ("Whose number is 0151 2207?", "Anna's phone: +49 151 2208."),
        ("What was the rent in 2024?", "In 2025 it was 430 euros."),
        ("Who waits at gate B4?", "Gate B7 is for Anna."),
        ("What was on Thursday 9 October 2025?", "Thursday 2 October 2025: a walk."),
    ],
)
def test_what_is_like_it_does_not_meet_it(question: str, line: str) -> None:
    assert not met(question, line)


def test_what_a_line_says_itself_goes_before_what_it_stands_under() -> None:
    question = "What is in room 12?"
    assert met(question, "It has a piano.", "# Room 12")
    assert not met(question, "Room 13 has a harp.", "Room 12 has a piano.")
    question = "How long does the K3 run?"
    assert met(question, "Model KB310 runs 40 minutes.", "K3")
    assert not met(question, "K2 runs 40 minutes.", "K3")


def test_of_several_names_each_must_be_met_by_something() -> None:
    lines = ["Room 12 has a piano.", "Room 21 has a harp.", "The hall has a drum."]

    def found(question: str) -> list[str]:
        return meeting(question, lines, lambda line: [line])

    assert found("What is in room 12?") == lines[:1]
    assert found("What is in room 12 and room 21?") == lines[:2]
    assert found("What is in room 12 and room 22?") == []
    assert found("Where is the drum?") == lines


def test_a_number_before_a_word_that_is_a_month_elsewhere_is_no_date() -> None:
    assert met("Is room 4 out of order?", "The lamp in room 4 is broken.")
    assert [name.form for name in names("O que houve em 4 out 2024?")] == ["date 2024-10-04"]
    assert not met("What was on 3 April 2024?", "3 APRİL 2024")  # no month in any of the languages


def test_amounts_and_ordinals_name_nothing() -> None:
    for question in (
        "Which has more than 2 Kilogramm?", "What is 15% of $80?", "Who won between 1900 and 1950?",
        "Which is the 2nd largest?", "Who sang in the 1990s?", "May I park here?",
    ):  # fmt: skip
        assert names(question) == []


@given(
    st.dates(date(1950, 1, 1), date(2049, 12, 31)),
    st.sampled_from(["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "fi", "pl"]),
)
def test_dates_are_met_in_each_language(day: date, language: str) -> None:
    for width in ("long", "medium"):
        spelt = format_date(day, width, locale=language)
        assert met(f"What happened on {spelt}?", f"{day.isoformat()}: it rained."), spelt
        assert met(f"What happened on {day.isoformat()}?", f"{spelt} it rained."), spelt
        other = day.replace(day=day.day % 28 + 1)
        if other != day:
            assert not met(f"What happened on {other.isoformat()}?", f"{spelt} it rained."), spelt


def test_a_search_by_words_finds_other_spellings() -> None:
    assert {"3 may", "05 03", "3 mai"} <= set(spellings("What happened on 2026-05-03?"))
    assert month("Sept.") == 9
    assert month("maybe") is None
