"""Passages of documents: what was found with its neighbours, under its heading.

Covers `app.documents.hits`.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.hits import Scope, list_around, paragraph_at, whole_end
from app.documents.store import DocumentStore
from dragon.errors import InvalidRequestError
from dragon.retrieval.find import TO_READ, TO_WRITE_FROM
from tests.app.stores import NOTE, ingest
from tests.samples import prose

GARDEN = """# Garden

The tap has leaked since May. The plumber, Ms Okafor, comes on 4 June.

## Shed

The mower needs oil. The key of the shed is under the blue pot.
"""


async def test_a_short_document_comes_whole_with_its_heading(store: DocumentStore) -> None:
    document = await ingest(store, "garden.md", GARDEN.encode())
    (passage,) = await store.passages_about("When does the plumber come?", 5)
    start = GARDEN.index("The tap")
    assert passage.text == GARDEN[start:].rstrip()
    assert (passage.start, passage.end) == (start, len(GARDEN.rstrip()))
    assert (passage.document, passage.title) == (document.id, "garden.md")
    assert passage.context == "Garden"
    assert len(passage.sentences) == 4
    assert all(sentence in passage.text for sentence in passage.sentences)
    assert await store.passages_about("Who composed the opera Fidelio?", 5) == []
    await store.delete(document.id)
    assert await store.passages_about("When does the plumber come?", 5) == []


async def test_of_a_long_one_comes_what_stands_around_a_hit(store: DocumentStore) -> None:
    text = f"{prose(60)}{NOTE.decode()}\n{prose(60, 'harbour')}"
    await ingest(store, "long.txt", text.encode())
    passages = await store.passages_about("Where is the spare key?", 2)
    assert "third flowerpot" in passages[0].text
    assert not passages[0].text.startswith("The spare key"), "what comes before belongs to it, too"
    for passage in passages:
        least, most = TO_WRITE_FROM
        assert least <= len(passage.text.encode()) <= most + 30
        assert text[passage.start : passage.end] == passage.text
    ranges = sorted((passage.start, passage.end) for passage in passages)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))


@pytest.mark.parametrize(
    ("text", "passage", "around"),
    [
        ("One.\n\nTwo. Three.\nFour.\n\nFive.", "Three.", "Two. Three.\nFour."),
        ("One.", "One.", "One."),
        ("One.\fTwo. Three.\fFour.", "Two.", "Two. Three."),
        (f"{'a ' * 500}Two. {'b ' * 500}", "Two.", f"… {'a ' * 149}Two. {'b ' * 148}b …"),
    ],
)
def test_a_sentence_stands_in_its_paragraph(text: str, passage: str, around: str) -> None:
    start = text.index(passage)
    assert paragraph_at(text, start, start + len(passage)) == around


async def test_what_answers_has_its_paragraph_and_a_row_has_none(store: DocumentStore) -> None:
    await ingest(store, "garden.md", GARDEN.encode())
    await ingest(store, "plants.csv", b"plant,place\nbasil,kitchen\nmint,yard\nsage,roof\n")
    (hit, *_) = await store.search("When does the plumber come?", 2)
    assert hit.around == "The tap has leaked since May. The plumber, Ms Okafor, comes on 4 June."
    (row, *_) = await store.search("Where is the mint?", 2)
    assert ("mint" in row.text, row.around) == (True, "")


async def test_the_closest_are_short_and_need_not_even_be_relevant(store: DocumentStore) -> None:
    text = f"{prose(60)}\n\n{NOTE.decode()}\n\n{prose(60, 'harbour')}"
    await ingest(store, "long.txt", text.encode())
    first, *others = await store.closest("What colour is the third flowerpot?", 3)
    assert first.text == NOTE.decode().strip(), "it is a paragraph of its own"
    assert len(others) == 2
    for passage in others:
        assert len(passage.text.encode()) <= TO_READ.most + 30
        assert text[passage.start : passage.end] == passage.text
    assert await store.closest("Who composed the opera Fidelio?", 3)


async def test_the_closest_rows_of_a_table_stand_alone(store: DocumentStore) -> None:
    await ingest(store, "plants.csv", b"plant,place\nbasil,kitchen\nmint,yard\nsage,roof\n")
    first, *_ = await store.closest("Does the mint taste of lemon?", 3)
    assert "mint" in first.text
    assert "sage" not in first.text


async def test_what_a_table_answers_comes_first(store: DocumentStore) -> None:
    rows = "plant,pots\nbasil,3\nmint,4\n"
    await ingest(store, "plants.csv", rows.encode())
    first, *rest = await store.passages_about("How many pots are there in total?", 5)
    assert first.query is not None
    assert "7" in first.text
    assert all(passage.query is None for passage in rest)


async def test_the_scope_holds_for_passages(store: DocumentStore) -> None:
    await ingest(store, "garden.md", GARDEN.encode(), collection="home")
    note = await ingest(store, "note.txt", NOTE, collection="keys")
    found = await store.passages_about("Where is the key?", 5, Scope(collections=["keys"]))
    assert {passage.document for passage in found} == {note.id}
    with pytest.raises(InvalidRequestError):
        await store.passages_about("Where?", 5, Scope(documents=["nowhere"]))


@pytest.mark.parametrize(
    ("text", "line", "whole"),
    [
        ("Shopping:\n- milk\n- bread\n\nBoats.", "Shopping:", "Shopping:\n- milk\n- bread"),
        ("To do:\n\n1. Rake.\n2. Rest.", "To do:", "To do:\n\n1. Rake.\n2. Rest."),
        ("Shopping:\nNothing.", "Shopping:", "Shopping:"),
        ("All:\n" + "- a thing to carry up\n" * 40, "All:", "All:"),
        (
            "E28: no flame. Open the tap. Wait.",
            "E28: no flame.",
            "E28: no flame. Open the tap. Wait.",
        ),
        (
            "E28: there is no flame. Open the tap.\nE29: hot.",
            "E28: there is no flame.",
            "E28: there is no flame. Open the tap.",
        ),
        ("E28: no. " + "Open the tap slowly. " * 20, "E28: no.", "E28: no."),
        (
            "Before you wash\nTake the bolts out. Keep them.",
            "Before you wash",
            "Before you wash\nTake the bolts out.",
        ),
        ("Joan Smith\n12 Mill Lane\n", "Joan Smith", "Joan Smith"),
        (
            "Spent in all:\n  Flight 412\n  Car 318\nHome.",
            "Spent in all:",
            "Spent in all:\n  Flight 412\n  Car 318",
        ),
        (
            "Buy:\n- Milk of goats,\n  two litres\n- Bread\n Home.",
            "Buy:",
            "Buy:\n- Milk of goats,\n  two litres\n- Bread",
        ),
        ("Pressure.\nIt is 1.3 bar.", "Pressure.", "Pressure."),
        ("It stands at 1.3 bar. Wait.", "It stands at 1.3 bar.", "It stands at 1.3 bar."),
    ],
)
def test_a_line_that_says_nothing_alone_has_what_follows(text: str, line: str, whole: str) -> None:
    assert text[: whole_end(text, 0, len(line))] == whole


CAKE = """# Grandma's plum cake

Serves twelve.

## Ingredients

- 375 g plain flour
- 1.4 kg plums, stoned and halved
- 80 g soft butter

## Method

1. Knead the flour with the butter.
2. Lay the plums on top.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "What ingredients do I need for the plum cake?",
            "- 375 g plain flour\n- 1.4 kg plums, stoned and halved\n- 80 g soft butter",
        ),
        ("How much butter goes into the plum cake?", "- 80 g soft butter"),
        ("Which of the ingredients is the flour?", "- 375 g plain flour"),
    ],
)
async def test_who_asks_for_a_list_is_given_all_of_it(
    store: DocumentStore, question: str, answer: str
) -> None:
    document = await ingest(store, "cake.md", CAKE.encode())
    first, *_ = await store.search(question, 3)
    assert first.text == answer
    assert CAKE[first.start : first.end] == answer
    await store.delete(document.id)


@pytest.mark.parametrize("entry", ["milk", "Milk", "two litres", "Bread"])
def test_a_list_is_found_from_each_of_its_entries(entry: str) -> None:
    listed = "- milk\n- Milk of goats,\n  two litres\n- Bread"
    text = f"  An aside.\n{listed}\n\n1. Go home.\n2. Eat."
    found = list_around(text, text.index(entry))
    assert found is not None
    assert text[slice(*found)] == listed


@given(st.lists(st.integers(1, 60), min_size=1, max_size=120), st.data())
def test_a_list_is_whole_or_too_long(lengths: list[int], data: st.DataObject) -> None:
    listed = "\n".join(f"- {'x' * length}" for length in lengths)
    text = f"All of it:\n{listed}\n\nThe end."
    entry = data.draw(st.integers(0, len(lengths) - 1))
    start = text.index("- ") + sum(length + 3 for length in lengths[:entry]) + 2
    whole = (11, 11 + len(listed)) if len(listed) <= 800 else None
    assert list_around(text, start) == whole
    assert list_around(text, text.index("All")) is None
