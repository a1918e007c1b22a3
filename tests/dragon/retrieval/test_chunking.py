from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.retrieval.chunking import MOST_BYTES, PAGE_BREAK, TextChunk, chunks, sentences
from tests.samples import prose


def size(text: str) -> int:
    return len(text.encode())


def check(pages: list[str], chunks: list[TextChunk], limit: int) -> None:
    """What must hold of every result, whatever the text."""
    joined = PAGE_BREAK.join(pages)
    rest, position = [], 0
    for each in chunks:
        assert each.text == joined[each.start : each.end]
        assert each.text == each.text.strip() != ""
        assert size(each.text) <= limit
        assert each.page == joined[: each.start].count(PAGE_BREAK) + 1
        assert PAGE_BREAK not in each.text
        rest.append(joined[position : each.start])
        position = each.end
    assert "".join([*rest, joined[position:]]).strip() == ""


def test_a_short_note_is_one_chunk() -> None:
    note = "Dentist: Tuesday 14 May.\nBring the X-ray.\n\nParking costs 3 euros.\n"
    assert [*chunks([note])] == [TextChunk(note.strip(), 0, len(note) - 1, 1)]


@pytest.mark.parametrize("pages", [[], [""], [" \n\t\n"], ["", " ", "\n"]])
def test_nothing_visible_gives_no_chunks(pages: list[str]) -> None:
    assert [*chunks(pages)] == []


def test_pages_are_numbered_and_never_mixed() -> None:
    pages = ["First page.", "", "Third page.\nIts second line."]
    found = [*chunks(pages)]
    assert [(each.page, each.text) for each in found] == [(1, pages[0]), (3, pages[2])]
    check(pages, found, MOST_BYTES)


def test_long_prose_breaks_between_sentences_and_fills_its_chunks() -> None:
    text = prose(200).replace("\n\n", " ")
    found = [*chunks([text])]
    check([text], found, MOST_BYTES)
    assert all(each.text.endswith(".") for each in found)
    assert all(size(each.text) > 200 for each in found[:-1])


def test_paragraphs_are_preferred_to_sentences() -> None:
    paragraph = "The heron waits by the weir. It does not move at all until the water clears. "
    text = "\n\n".join([paragraph * 2] * 8)
    for each in chunks([text]):
        assert each.text.endswith("clears.")
        assert each.text.startswith("The heron")
        assert text[each.end :].strip() == "" or text[each.end :].lstrip(" ").startswith("\n\n")


def test_a_heading_stays_with_what_it_introduces() -> None:
    section = "## Section {}\n\n" + "The lamp is lit at dusk by the keeper of the hour. " * 5
    text = "\n\n".join(section.format(number) for number in range(6))
    for each in chunks([text]):
        assert "\n## " not in each.text
        assert not each.text.splitlines()[-1].startswith("#")


def test_abbreviations_and_initials_do_not_end_sentences() -> None:
    filler = "Many birds rest on the quiet lake in autumn and wait. " * 4
    text = filler + "We met Dr. Okonjo and J. R. Tolliver there. " * 12
    for each in chunks([text], 160):
        assert not each.text.endswith(("Dr.", "J.", "R."))


@pytest.mark.parametrize(
    "text",
    [
        "x" * 5000,
        "9" * 2000,
        "\U0001f409" * 400,
        "日本語の文章。" * 200,
        "e\u0301" * 700,
        " " * 5000 + "end",
        "word " + " " * 3000 + "word",
        "<|doc|><|end|>" * 100,
    ],
)
def test_over_long_words_are_cut_within_the_limit(text: str) -> None:
    found = [*chunks([text], 32)]
    check([text], found, 32)


@given(
    pages=st.lists(
        st.text(st.sampled_from("ab .\n\t#é\u0301日。\U0001f409\x1c\u00a0Z1<|>"), max_size=400),
        max_size=4,
    ),
    limit=st.integers(8, 40),
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_covered_in_order_within_the_limit(pages: list[str], limit: int) -> None:
    check(pages, [*chunks(pages, limit)], limit)


def test_a_limit_too_small_for_one_character_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        next(chunks(["text"], 7))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Anything larger is the landlord's. Call Bruno.",  # a possessive is no initial
            [
                ("Anything larger is the landlord's.", ""),
                ("Call Bruno.", "Anything larger is the landlord's."),
            ],
        ),
        (
            "Error codes.\nE10: too low. Top it up.\nE28: no flame. Press Reset.",
            [
                ("Error codes.", ""),
                ("E10: too low.", "Error codes."),
                ("Top it up.", "E10: too low."),
                ("E28: no flame.", "Error codes."),
                ("Press Reset.", "E28: no flame."),
            ],
        ),
        (
            "RINSE AID\nUse less of it.\n\n2. CARE AND REPAIRS\nClean the filter.\nKeep 3 keys.",
            [
                ("Use less of it.", "RINSE AID"),
                ("Clean the filter.", "2. CARE AND REPAIRS"),
                ("Keep 3 keys.", "2. CARE AND REPAIRS: Clean the filter."),
            ],
        ),
        (  # a short line without a mark heads the prose below it, and stays a sentence
            "House rules\n\n1. Keys\nThey hang left of the door. Lock up.\n\nLights\n\nOff at ten.",
            [
                ("House rules", ""),
                ("1. Keys", ""),
                ("They hang left of the door.", "1. Keys"),
                ("Lock up.", "1. Keys: They hang left of the door."),
                ("Lights", ""),
                ("Off at ten.", "Lights"),
            ],
        ),
        (  # the number of an item is no sentence
            "Shopping\n1. Buy milk\n2) Buy bread. Two loaves.\n3.",
            [
                ("Shopping", ""),
                ("Buy milk", "Shopping"),
                ("Buy bread.", "Shopping"),
                ("Two loaves.", "Buy bread."),
                ("3.", "Shopping"),
            ],
        ),
    ],
)
def test_sentences_and_what_they_stand_under(text: str, found: list[tuple[str, str]]) -> None:
    assert [(each.text, each.context) for each in sentences([text])] == found


def test_sentences_keep_their_places_on_several_pages() -> None:
    pages = [
        "# Minutes\n\n## 1. Rents\n\nThey rise. By a lot.\n\n## 2. Fair\n\nOn 19 July.",
        "In the park.\n\n## 3. Bees\n\n## 4. The code is 4711",
    ]
    found = sentences(pages, most=80)
    assert [(each.text, each.context, each.page) for each in found] == [
        ("They rise.", "1. Rents", 1),
        ("By a lot.", "1. Rents: They rise.", 1),
        ("On 19 July.", "2. Fair", 1),
        ("In the park.", "2. Fair", 2),
        ("## 3. Bees", "", 2),  # nothing else says what stands there
        ("## 4. The code is 4711", "", 2),
    ]
    joined = PAGE_BREAK.join(pages)
    assert all(joined[each.start : each.end] == each.text for each in found)


@given(text=st.text(st.characters(exclude_characters="#"), max_size=300))
def test_sentences_hold_every_visible_character_once(text: str) -> None:
    found = sentences([text], most=50)
    visible = "".join(re.sub(r"(?m)^\s*\d\d?(?:[.)]|(?:\.\d\d?)+[.)]?)\s", "", text).split())
    assert "".join("".join(each.text.split()) for each in found) == visible
    assert all(text[each.start : each.end] == each.text for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "Code 4711\nIt opens the gate.",  # says something
        "Wifi: heron\nThe router is upstairs.",
        "Dear Anna,\nThe boat is in the shed.",
        "We met there with\nall of the neighbours.",  # goes on
        "The boat is in the shed\nKeys.",
        "Keys\n- one in the shed.",
    ],
)
def test_other_short_lines_do_not(text: str) -> None:
    *lines, last = sentences([text, "On another page."])
    assert "\n".join(each.text for each in lines) == text
    assert last.context == ""


@pytest.mark.parametrize(
    "sentence",
    [
        "Das Fest ist am 9. Mai und endet am 10. September.",
        "Der Verein e. V. wohnt z. B. in der Hauptstr. 5 bei Fr. Brandt.",
        "La Sra. Pérez paga la cuota núm. 4 el lunes.",
    ],
)
def test_no_sentence_ends_there(sentence: str) -> None:
    found = sentences([f"{sentence}\nIt follows."])
    assert [each.text for each in found] == [sentence, "It follows."]


@pytest.mark.parametrize(
    "line", ["STOP!", "K7-QX41", "A 12", "钥匙在花盆下面", "ID: S01; WORK: TYRES.", "A" * 61]
)
def test_other_lines_do_not(line: str) -> None:
    assert [each.text for each in sentences([f"{line}\nIt follows."])] == [line, "It follows."]
