"""What stands under a heading or behind a label that a question quotes."""

from __future__ import annotations

import pytest

from app.documents.hits import Scope
from app.documents.sections import title_asked
from app.documents.store import DocumentStore
from tests.app.stores import ingest

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
