"""What asks for a summary, and which sentences one is made of; what stands under a quoted title.

Covers `app.documents.hits`.
"""

from __future__ import annotations

import numpy as np
import pytest

from app.documents.hits import Follows, Scope
from app.documents.store import DocumentStore
from app.documents.summaries import extract, subject, title_asked
from app.storage.tables import Chunk
from tests.app.stores import ingest

MINUTES = b"""# Allotment meeting

## Water

The standpipe by plot nine has leaked since January and wastes much water.
Dow & Sons will repair the standpipe on the second of April for 275 pounds.

## Rent

The rent for a full plot rises from 48 to 54 pounds a year from October.
Pensioners keep paying the old rent for their plots.

## Fair

The summer fair takes place on Saturday the nineteenth of July.
Dogs are welcome at the fair on a lead.
"""
POLICY = b"""# Household insurance

## What is covered

Fire, water and theft are covered up to a total of 60,000 euros.
Bicycles are covered up to 800 euros if they were locked.

## What you pay

The yearly premium is 184 euros and is due on the first of March.

## Ending it

The contract may be ended with three months' notice to the end of a year.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Summarise the minutes.", {"minut"}),
        ("Could you please summarize it?", set()),
        ("What is this about?", set()),
        ("what's the memo about", {"memo"}),
        ("What should I know?", set()),
        ("Give me a short overview of the trip", {"trip"}),
        ("tl;dr", set()),
        ("Summarise the trip for my mother, day by day", {"trip"}),
        ("A summary for the trip in a few lines", {"trip"}),
        ("Summarise the lease for Oak Street", {"leas", "oak", "street"}),
        ("Summarise the will.", set()),
        ("Fassen Sie Mietvertrag.txt zusammen.", {"mietvertrag", "txt"}),
        ("Resuma contrato.txt.", {"contrato", "txt"}),
        ("Fasse dieses Dokument zusammen.", set()),
        ("Resume este documento.", set()),
        ("What is the summary fee?", None),
        ("What are the bees about to do?", None),
        ("What is the rule about dogs?", None),
    ],
)
def test_what_asks_for_a_summary(question: str, expected: set[str] | None) -> None:
    assert subject(question) == expected


def chosen(lines: list[str], near: dict[str, float]) -> list[str]:
    """What sums up these lines, whose vectors point in the direction (1, 0.1) or (1, near)."""
    text = "\n".join(lines)
    sentences, vectors = [], {}
    for line in lines:
        if not line.startswith("#"):
            at, vector = text.index(line), np.array([1.0, near.get(line, 0.1)], dtype=np.float32)
            sentences.append(Chunk(id=at, start=at, end=at + len(line)))
            vectors[at] = vector / np.linalg.norm(vector)
    return [text[each.start : each.end] for each in extract(text, sentences, vectors)]


def test_first_sentences_then_central_ones_while_there_is_room() -> None:
    words = " ".join(["lantern"] * 8)  # four sentences fit in 300 characters, five do not
    first, far, central = (f"one {words} {word}" for word in ("six", "far", "key"))
    others = [f"{word} {words} two" for word in ("two", "ten", "six", "one")]
    lines = ["# A", first, far, central, "# B", *others[:2], "# C", "too short", *others[2:]]
    assert chosen(lines, {far: 1.0, central: 0.2}) == [first, central, others[0], others[2]]


async def test_a_document_is_summed_up_in_its_own_sentences(store: DocumentStore) -> None:
    assert await store.search("Summarise my documents.", 3) == []
    minutes = await ingest(store, "minutes.md", MINUTES)
    policy = await ingest(store, "policy.md", POLICY)
    (hit,) = await store.search("Summarise the minutes.", 3)
    assert hit.document == minutes.id
    lines = MINUTES.decode().splitlines()
    kept = [line for line in lines if line in hit.text]
    assert hit.text == " ".join(line for line in kept if line)
    for part in ("standpipe", "rent", "fair"):
        assert part in hit.text
    (of_newest,) = await store.search("What is this about?", 3)
    assert of_newest.document == policy.id
    (by_words,) = await store.search("Give me a summary of the household insurance", 3)
    assert by_words.document == policy.id
    (said, *_) = await store.search("When will Dow & Sons repair the standpipe?", 3)
    (meant,) = await store.search("Summarise it.", 3, Scope(follows=Follows(said, "Summarise it.")))
    assert meant.document == minutes.id
    await ingest(store, "document.md", CARD)
    await ingest(store, "—.md", CARD)
    scope = Scope(follows=Follows(said, "Summarise this document."))
    (meant,) = await store.search("Summarise this document.", 3, scope)
    assert meant.document == minutes.id
    (named,) = await store.search("Summarise the minutes of the meeting, in a few lines", 3)
    assert named.document == minutes.id
    assert await store.search("Summarise the French revolution.", 3) == []


CARD = b"""# Patient card

Pebble is a grey cat and was found in a barn in May 2015.

# 2018

In August Pebble limped, and it was a sprain of the left hind leg.

# 2024

Pebble drinks a lot, and the blood test says early kidney disease.
"""


async def test_a_name_that_is_a_common_word_is_one(store: DocumentStore) -> None:
    will = await ingest(store, "will.txt", POLICY)
    await ingest(store, "minutes.md", MINUTES)
    (hit,) = await store.search("Summarise the will.", 3)
    assert hit.document == will.id


async def test_a_document_is_summed_up_by_what_it_is_about(store: DocumentStore) -> None:
    card = await ingest(store, "card.md", CARD)
    (hit,) = await store.search("pls summarise Pebble's medical history", 3)
    assert hit.document == card.id
    assert await store.search("Summarise the French revolution.", 3) == []


MANUAL = b"""# House manual

## Hot water

Turn the dial to three. Wait ten minutes.

The tank holds enough for two showers.

## \xc2\xa7 3 Pets

One dog.
"""
PARAGRAPHS = b"""Manual

Hot tub. Turn it on at six.

Service. Once a year in May.
"""


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What do my documents say about “Hot water”?", "Hot water"),
        ('what do my documents say about "Hot water"', "Hot water"),
        ("Was steht unter „Miete“?", "Miete"),
        ("¿Qué dicen mis documentos sobre «Renta»?", "Renta"),
        ("What do my documents say about hot water?", ""),
        ("Who says “Hot water”?", ""),
    ],
)
def test_what_asks_for_a_section(question: str, title: str) -> None:
    assert title_asked(question) == title


async def said(store: DocumentStore, title: str, scope: Scope | None = None) -> list[str]:
    found = await store.search(f"What do my documents say about “{title}”?", 3, scope or Scope())
    return [hit.text for hit in found]


async def test_all_that_stands_under_a_heading_and_no_more(store: DocumentStore) -> None:
    await ingest(store, "manual.md", MANUAL)
    (water,) = await said(store, "Hot water")
    assert water == (
        "Turn the dial to three. Wait ten minutes. The tank holds enough for two showers."
    )
    assert await said(store, "Pets") == ["One dog."]


async def test_the_line_that_begins_with_a_label(store: DocumentStore) -> None:
    await ingest(
        store, "lease.txt", b"Miete: 410 Euro\nHausmeister: Herr Abel\nKaution: 800 Euro\n"
    )
    await ingest(store, "manual.txt", PARAGRAPHS)
    assert await said(store, "Hausmeister") == ["Hausmeister: Herr Abel"]
    assert await said(store, "Service") == ["Service. Once a year in May."]
    assert await said(store, "Hot tub") == ["Hot tub. Turn it on at six."]


async def test_the_newest_document_that_has_it_within_the_scope(store: DocumentStore) -> None:
    old = await ingest(store, "old.md", MANUAL)
    await ingest(store, "new.md", MANUAL.replace(b"One dog.", b"Two cats."))
    await ingest(store, "other.md", b"# Other\n\nNothing of pets here.\n")
    (pets,) = await store.search("What do my documents say about “Pets”?", 3, Scope())
    assert (pets.text, pets.title) == ("Two cats.", "new.md")
    assert pets.end == MANUAL.decode().index("One dog.") + len("Two cats.")
    assert await said(store, "Pets", Scope(documents=[old.id])) == ["One dog."]
