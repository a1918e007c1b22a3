"""A question with a slip of the pen finds what it means."""

from __future__ import annotations

from app.documents.search import respelled
from app.documents.store import DocumentStore
from app.owners import acting_as
from tests.app.stores import NOTE, OTHER, ingest


async def test_misspelt_words_are_read_as_the_documents_spell_them(store: DocumentStore) -> None:
    await ingest(store, "key.txt", NOTE)
    await ingest(store, "router.txt", OTHER)
    for question, expected in (
        ("Where is the spare key?", NOTE),
        ("Where is the spaer key?", NOTE),
        ("under which flowerpto does the spare key hang", NOTE),
        ("What is the passcode of the ruoter?", OTHER),
        ("what is the passcoed of the router", OTHER),
    ):
        (hit, *_) = await store.search(question, 1)
        assert hit.text in expected.decode()


async def test_misspelt_words_that_ask_for_figures_or_a_summary(store: DocumentStore) -> None:
    await ingest(store, "visits.csv", b"day,guests\nMonday,12\nTuesday,20\nFriday,31\n")
    (hit, *_) = await store.search("How many guests came on averge?", 3)
    assert hit.text.startswith("guests on average: 21")
    await ingest(store, "club.md", b"The club meets each Monday. It has ninety members today.")
    (hit,) = await store.search("Sumarise club.md", 3)
    assert hit.text.startswith("The club meets")


async def test_an_english_word_is_not_taken_for_another(store: DocumentStore) -> None:
    await ingest(store, "house.txt", b"The house behind the hill is blue.\n")
    assert [hit.text for hit in await store.search("What colour is the house?", 1)]
    assert await store.search("What colour is the horse?", 1) == []


async def test_a_deleted_word_is_suggested_no_more(store: DocumentStore) -> None:
    document = await ingest(store, "key.txt", NOTE)
    await ingest(store, "router.txt", OTHER)
    assert await store.search("Where is the flowerpto?", 1)
    await store.delete(document.id)
    assert await store.search("Where is the flowerpto?", 1) == []


async def test_words_of_documents_that_one_may_not_read_are_none(store: DocumentStore) -> None:
    await ingest(store, "key.txt", NOTE)
    with acting_as("ben"):
        mine = await ingest(store, "pot.txt", b"The flowerpats of the sale are blue.\n")
        (hit, *_) = await store.search("Where are the flowerpost of the sale?", 1)
        assert hit.document == mine.id
        question = "under which flowerpto?"
        assert await respelled(store._sessions, question) == question
    assert await respelled(store._sessions, question) == "under which flowerpot?"
