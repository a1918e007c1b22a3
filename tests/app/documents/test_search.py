"""What a search finds among the person's documents: by meaning, by words, within limits."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from app.documents import index
from app.documents.hits import Follows, Scope
from app.documents.ingestion import Phase
from app.documents.store import DocumentStore
from app.storage.tables import Status
from dragon.errors import InvalidRequestError, NotFoundError
from dragon.link.control import MAX_QUERY
from dragon.retrieval.embedder import Embedder, Passage
from dragon.retrieval.index import VectorIndex
from harness.adding import add
from tests.app.stores import NOTE, OTHER, finished, ingest, opened, reached
from tests.samples import embedder, prose

_PART = 64  # sentences of a file of vectors

CODES = """Spare parts.

The pump takes seal QX-7741-B, size four.

The heater takes seal QX-7714-B, size six.

Mr Wojtkiewicz-Ó Súilleabháin repaired the boiler in May.

Ms Abernathy repaired the roof in June.
"""


async def test_codes_and_rare_names_find_their_sentence(store: DocumentStore) -> None:
    await ingest(store, "parts.md", CODES.encode())
    await ingest(store, "long.txt", prose(80).encode())
    for query, expected in (
        ("QX-7741-B", "The pump takes seal QX-7741-B, size four."),
        ("what takes seal qx 7714 b?", "The heater takes seal QX-7714-B, size six."),
        ("o suilleabhain", "Mr Wojtkiewicz-Ó Súilleabháin repaired the boiler in May."),
        ("Abernathy", "Ms Abernathy repaired the roof in June."),
    ):
        assert (await store.search(query, 3))[0].text == expected


async def test_a_word_finds_what_an_embedding_ranks_low(store: DocumentStore) -> None:
    """Beyond the nearest vectors that are looked at, words alone bring it up."""
    await ingest(store, "log.txt", prose(200).encode())
    await ingest(store, "odd.txt", b"Zyx-404: see shelf nine.")
    hits = await store.search("day zyx-404", 1)
    assert [hit.text for hit in hits] == ["Zyx-404: see shelf nine."]


async def test_what_says_the_same_is_found_once_in_the_newest(store: DocumentStore) -> None:
    await ingest(store, "old.txt", NOTE)
    newer = await ingest(store, "newer.md", b"# Notes\n\n" + NOTE.upper())
    await ingest(store, "other.txt", NOTE.replace(b"third", b"4th"))
    hits = await store.search("Where is the spare key?", 10)
    assert [hit.document for hit in hits if "THIRD" in hit.text.upper()] == [newer.id]
    assert sum("4th" in hit.text for hit in hits) == 1


async def test_sentences_know_the_title_of_their_document(store: DocumentStore) -> None:
    await ingest(store, "record.md", b"# Service record: Falcon\n\nThe chain was oiled.\n")
    await ingest(store, "key.txt", NOTE)
    await ingest(store, "parts.csv", b"part,price\nFalcon saddle,12\nchain,9\n")
    hits = await store.search("Where is the spare key or the chain?", 9, relevant=False)
    titles = {hit.title: hit.about for hit in hits}
    assert titles == {"record.md": "# Service record: Falcon", "key.txt": "", "parts.csv": ""}


async def test_sentences_know_whom_their_document_is_about(store: DocumentStore) -> None:
    visits = [
        "3 March 2023: A wound on the left hind leg was cleaned and closed with two stitches.",
        "9 June 2023: Ears clean, coat dull; the food was changed to the one for older cats.",
        "1 February 2024: A claw was torn and taken off, and the paw bandaged for a week.",
        "8 April 2024: The thyroid was found to be {}, to be tested again in autumn.",
    ]
    for name, found in (("Biscuit", "enlarged"), ("Crumpet", "normal")):
        text = "\n\n".join(["HILL VETS", f"Name: {name}\nKind: cat", "History", *visits])
        await ingest(store, f"{name[0]}.txt", f"{text.format(found)}\n".encode())
    for name, found in (("Biscuit", "enlarged"), ("Crumpet", "normal")):
        (hit,) = await store.search(f"How was {name}'s thyroid?", 1)
        assert found in hit.text
    records = b"Dates\n\nName: Ada\nPlace: Kiel\n\nName: Bo\nPlace: Ulm\n\nNobody else comes.\n"
    await ingest(store, "dates.txt", records)
    (first, *_) = await store.search("Which place is Bo's?", 1, relevant=False)
    assert first.about == "Dates", "a record is not about another one"


async def test_a_table_is_asked_behind_any_number_of_other_documents(store: DocumentStore) -> None:
    await ingest(store, "tools.csv", b"tool,price\nsaw,12\ndrill,90\nfile,7\n")
    for number in range(4):
        note = f"The most expensive tool of shed {number} was lent to number {number + 9}."
        await ingest(store, f"shed{number}.txt", note.encode())
    (hit,) = await store.search("What is the most expensive tool?", 3)
    assert (hit.title, hit.text) == ("tools.csv", "tool: drill; price: 90 (the highest price)")


async def test_only_documents_in_scope_are_found(store: DocumentStore) -> None:
    texts = [NOTE, OTHER, b"The cellar key is blue.\n"]
    one, two, three = [
        await ingest(store, f"{n}.txt", text, collection=name)
        for n, (text, name) in enumerate(zip(texts, ("a", "b", "b"), strict=True))
    ]

    async def found(scope: Scope) -> set[str]:
        hits = await store.search("spare key passcode", 9, scope, relevant=False)
        return {hit.document for hit in hits}

    assert await found(Scope()) == {one.id, two.id, three.id}
    assert await found(Scope(collections=["b"])) == {two.id, three.id}
    assert await found(Scope([one.id, three.id])) == {one.id, three.id}
    assert await found(Scope([one.id, three.id], ["b"])) == {three.id}
    assert await found(Scope([])) == set()
    for scope in (Scope(["file-gone"]), Scope(None, ["a", "gone"])):
        with pytest.raises(InvalidRequestError, match="There is no"):
            await found(scope)


async def test_the_old_version_answers_until_the_new_one_is_indexed(store: DocumentStore) -> None:
    old = await ingest(store, "key.txt", NOTE)
    new = await add(store, "key.txt", prose(150).encode() + OTHER, replace=True)
    seen = []
    async for _ in await store.watch(new.id):
        hits = await store.search("spare key or router passcode", 5, relevant=False)
        seen.append({hit.document for hit in hits})
    # Never both, never neither, at any moment.
    assert (seen[0], seen[-1]) == ({old.id}, {new.id})
    assert all(documents in ({old.id}, {new.id}) for documents in seen)
    assert [document.id for document in await store.list()] == [new.id]


async def test_a_search_at_work_while_a_document_is_replaced_finds_one_version(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await ingest(store, "key.txt", NOTE)
    nearest = VectorIndex.search
    found, go_on = threading.Event(), threading.Event()

    def search_and_wait(*args: Any) -> Any:
        hits = nearest(*args)
        found.set()
        go_on.wait()
        return hits

    monkeypatch.setattr(VectorIndex, "search", search_and_wait)
    no_words_of_it = "unlock entrance"
    search = asyncio.create_task(store.search(no_words_of_it, 5, relevant=False))
    await asyncio.to_thread(found.wait)
    monkeypatch.setattr(VectorIndex, "search", nearest)

    try:
        new = await add(store, "key.txt", NOTE + OTHER, replace=True)
        await reached(store, new, Phase.CHUNKED)
        for _ in range(200):  # if it does not wait for the search, it has ended by then
            if (await store.get(new.id)).status == Status.PROCESSED:
                break
    finally:
        go_on.set()
    assert {hit.document for hit in await search} in ({old.id}, {new.id})
    await finished(store, new)
    hits = await store.search(no_words_of_it, 5, relevant=False)
    assert {hit.document for hit in hits} == {new.id}


async def test_a_version_that_fails_or_is_cancelled_replaces_nothing(store: DocumentStore) -> None:
    old = await ingest(store, "key.txt", NOTE)
    failed = await ingest(store, "key.txt", b"\x89PNG", replace=True)
    cancelled = await add(store, "key.txt", prose(120).encode(), replace=True)
    await store.cancel(cancelled.id)
    statuses = {each.id: each.status for each in await store.list()}
    assert statuses == {
        old.id: Status.PROCESSED, failed.id: Status.ERROR, cancelled.id: Status.ERROR,
    }  # fmt: skip
    assert len(await store.search("Where is the spare key?", 5)) == 1
    await store.retry(cancelled.id)
    await finished(store, cancelled)
    assert [document.id for document in await store.list()] == [cancelled.id]


class Refusing(Embedder):
    """An embedder that waits once it has embedded a part of a document, and then fails."""

    def __init__(self) -> None:
        super().__init__(embedder()._model, embedder().fingerprint)
        self.waits, self.may = threading.Event(), threading.Event()
        self.done = 0

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        if self.done >= _PART:
            self.waits.set()
            self.may.wait(60)
            raise RuntimeError("a fault in the embedder")
        self.done += len(passages)
        return super().embed_passages(passages)


@pytest.mark.parametrize("ends", ["fails", "cancelled", "killed"])
async def test_the_old_version_stays_until_the_new_one_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(index, "_PART", _PART)
    async with opened(tmp_path, model := Refusing()) as store:
        old = await ingest(store, "key.txt", NOTE)
        new = await add(store, "key.txt", (prose(120) + OTHER.decode()).encode(), replace=True)
        await asyncio.to_thread(model.waits.wait)
        assert (await store.get(new.id)).chunks > 120
        # Its sentences, of which some have vectors, do not take the places of what is searched.
        hits = await store.search("the stone keeper", 5, relevant=False)
        assert {hit.document for hit in hits} == {old.id}
        if ends == "cancelled":
            await store.cancel(new.id)
        elif ends == "killed":
            await store.close()
        model.may.set()
        await finished(store, new)
        if ends != "killed":
            assert (await store.get(new.id)).status == Status.ERROR
        (hit,) = await store.search("Where is the spare key?", 5)
        assert hit.document == old.id
    async with opened(tmp_path) as store:
        await store.retry(new.id)
        assert (await finished(store, new))[-1].status == Status.PROCESSED
        assert [document.id for document in await store.list()] == [new.id]
        hits = await store.search("What is the router's passcode?", 5)
        assert hits[0].text == OTHER.decode().strip()


async def test_the_latest_upload_replaces_those_at_work_too(store: DocumentStore) -> None:
    first = await ingest(store, "key.txt", NOTE)
    slow = await add(store, "key.txt", prose(300).encode(), replace=True)
    await add(store, "key.txt", NOTE, replace=True)  # the first again, while the other is at work
    assert [document.id for document in await store.list()] == [first.id]
    assert len(await store.search("Where is the spare key?", 5)) == 1
    early = await add(store, "key.txt", prose(300).encode())
    late = await add(store, "key.txt", OTHER, replace=True)
    for document in (late, early):
        with suppress(NotFoundError):
            await finished(store, document)
    assert slow.id == early.id
    assert [document.id for document in await store.list()] == [late.id]


async def test_a_cancelled_search_keeps_no_snapshot(store: DocumentStore, tmp_path: Path) -> None:
    await ingest(store, "stones.txt", prose(100).encode())
    with closing(sqlite3.connect(tmp_path / "dragon.db", timeout=0)) as connection:
        for step in range(60):
            search = asyncio.create_task(store.search("the stone keeper on day 3", 5))
            await asyncio.sleep(step * 0.0005)
            search.cancel()
            await asyncio.wait([search])
            with connection:
                connection.execute("UPDATE documents SET bytes = bytes + 1")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert not busy, step


async def test_a_table_answers_with_the_cell_and_its_query(store: DocumentStore) -> None:
    rows = b"store_id,city,revenue_eur\nS1,Lyon,5000\nS2,Turin,7500\nS13,Lyon,100\n"
    document = await ingest(store, "stores.csv", rows)
    (hit,) = await store.search("What is the revenue of S1?", 3)
    assert hit.text == "S1, Lyon, revenue_eur: 5000"
    assert hit.query is not None
    _, text = await store.text(document.id)
    assert text[hit.start : hit.end] == "store_id: S1; city: Lyon; revenue_eur: 5000"
    assert await store.search("What is the revenue of S23?", 3) == []
    await store.delete(document.id)
    assert await store.search("What is the revenue of S1?", 3) == []


async def test_what_belongs_to_a_passage_is_quoted_with_it(store: DocumentStore) -> None:
    text = (
        b"Who repairs the leaking tap was discussed at length. "
        b"Dow & Sons repair the leaking tap on 2 April.\n"
        b"The lift was painted.\n"
    )
    document = await ingest(store, "minutes.txt", text)
    (hit, *_) = await store.search("Who repairs the leaking tap?", 3)
    _, whole = await store.text(document.id)
    assert whole[hit.start : hit.end] == hit.text
    assert "Dow & Sons" in hit.text
    assert "lift" not in hit.text


MINUTES = """Rents. The rent rises to 54 pounds a year.

Fair. The summer fair is on Saturday 19 July. Dogs are welcome on a lead. If it rains we move into
the scout hut.

Bees. Joan keeps two hives. It never rains in the orchard.
"""


async def test_what_amends_a_sentence_stands_before_it(store: DocumentStore) -> None:
    for text, query, expected in (
        (
            "The rent of the flat is 900 euros.\nAddendum: the rent of the flat is now 950 euros.",
            "What is the rent of the flat?",
            "now 950",
        ),
        (
            "The rent of the flat in Rome is 900 euros.\nThat of the flat in Oslo is now 950.",
            "What is the rent of the flat in Rome?",
            "Rome is 900",
        ),
    ):
        document = await ingest(store, "lease.txt", text.encode())
        first, *_ = await store.search(query, 3)
        assert expected in first.text
        await store.delete(document.id)


async def test_the_newest_version_answers_and_mentions_others(store: DocumentStore) -> None:
    for year, fee in ((2024, 70), (2022, 55), (2023, 60)):
        text = f"Statutes of the rowing club.\n\nThe yearly fee of the club is {fee} francs.\n"
        text += "\nGuests row for nothing.\n"
        await ingest(store, f"statutes {year}.txt", text.encode())
    for query, expected, others in (
        ("What is the fee of the club?", "70 francs", 2),
        ("What was the yearly fee of the club in 2022?", "55 francs", 0),
        ("Who rows for nothing?", "Guests", 0),
    ):
        first, *_ = await store.search(query, 3)
        assert expected in first.text
        assert first.others == others


async def test_one_of_several_parts_is_not_the_sum(store: DocumentStore) -> None:
    months = "In week 31 the harbour took 410 euros. In week 32 the harbour took 385 euros."
    await ingest(store, "harbour.txt", months.encode())
    (first, *_) = await store.search("How much did the harbour take in week 32?", 1)
    assert "385" in first.text
    assert await store.search("How much did the harbour take in total?", 1) == []
    quarters = " ".join(f"Revenue in Q{n} was {9 + n} million." for n in range(1, 5))
    await ingest(store, "quarters.txt", quarters.encode())
    assert await store.search("What was the total revenue of the four quarters?", 1) == []


async def test_a_part_that_a_question_names_answers_it(store: DocumentStore) -> None:
    revenue = "Total revenue in Q{n} was 1{n} million."
    for text, query, expected in (
        (revenue, "What was the total revenue in Q3?", "13 million"),
        (revenue, "What was the total revenue in Q2 and Q3?", ""),
        ("In Q{n} 2023 the total was 1{n} tons.", "What was the total in Q3 2023?", "13 tons"),
        ("In 202{n} the average age was 3{n}.", "What was the average age in 2023?", "33"),
    ):
        lines = " ".join(text.format(n=n) for n in range(1, 5))
        document = await ingest(store, "report.txt", lines.encode())
        found = await store.search(query, 1)
        assert [expected in hit.text for hit in found] == [True] * bool(expected)
        await store.delete(document.id)


async def test_one_row_of_a_table_is_not_the_sum(store: DocumentStore) -> None:
    keys = b"item,count\nFront door key,3\nCellar key,1\nMailbox key,2\n"
    await ingest(store, "lease.csv", keys)
    (first, *_) = await store.search("How many cellar keys are there?", 1)
    assert "1" in first.text
    assert await store.search("How many keys are there in total?", 1) == []


async def test_what_two_files_say_of_two_people_are_no_versions(store: DocumentStore) -> None:
    for name, room in (("Ida Holm", 14), ("Per Lind", 27)):
        text = f"Staff card of {name}.\nThe office is room {room}.\n"
        await ingest(store, f"{name}.txt", text.encode())
    first, *_ = await store.search("Which room is the office of Ida Holm?", 3)
    assert (first.title, first.others) == ("Ida Holm.txt", 0)


async def test_a_question_is_not_answered_by_itself(store: DocumentStore) -> None:
    faq = "Which key opens the boat house?\n\nThe brass key opens the boat house.\n"
    await ingest(store, "faq.txt", faq.encode())
    first, *_ = await store.search("Which key opens the boat house?", 3)
    assert "brass" in first.text
    await ingest(store, "mail.txt", b"Ole, could you oil the old hinges before Monday?\n")
    first, *_ = await store.search("Who should oil the hinges?", 3)
    assert "Ole" in first.text, "what asks for something else may tell"


async def test_a_reply_is_traced_and_what_follows_is_beside_it(store: DocumentStore) -> None:
    await ingest(store, "minutes.md", MINUTES.encode())
    assert await store.said("Nairobi is the capital of Kenya.") is None
    for reply in ("It is on Saturday 19 July.", "The summer fair is on Saturday 19 July."):
        said = await store.said(reply)
        assert said is not None
        assert "summer fair" in said.text
    scope = Scope(follows=Follows(said, "And if it rains?"))
    first, *_ = await store.search("And if it rains?", 3, scope)
    assert "scout hut" in first.text


async def test_a_table_is_asked_in_the_questions_own_words_first(store: DocumentStore) -> None:
    await ingest(store, "bikes.csv", b"code,model,price\nB103,City,780\nB105,Cargo,3450\n")
    said = await store.said("code: B103; model: City; price: 780")
    assert said is not None
    scope = Scope(follows=Follows(said, "Which bike has the highest price?"))
    (answer,) = await store.search("Does bike B103 have the highest price?", 3, scope)
    assert "B105" in answer.text


async def test_a_question_that_changes_the_one_before_is_asked_of_its_table(
    store: DocumentStore,
) -> None:
    await ingest(store, "costs.csv", b"date,kind,amount\n2025-01-04,Food,84.20\n"
                 b"2025-01-11,Cinema,36.50\n2025-03-01,Food,77.45\n")  # fmt: skip
    asked = "How much did we spend on food in January?"
    (before,) = await store.search(asked, 3)
    for following, figure in {"And on cinema?": "36.50", "And in March?": "77.45"}.items():
        turns = [(asked, before.text), (following, "")]
        (found,) = await store.search(following, 3, Scope(turns=turns))
        assert figure in found.text
    elsewhere = Scope(turns=[(asked, "They cost a fortune."), ("And in March?", "")])
    assert not any(hit.query for hit in await store.search("And in March?", 3, elsewhere))


async def test_the_turns_of_a_chat_are_read_once_and_only_as_far_as_a_question_goes(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingest(store, "costs.csv", b"date,kind,amount\n2025-01-04,Food,84.20\n"
                 b"2025-01-11,Cinema,36.50\n")  # fmt: skip
    said = await store.said("date: 2025-01-04; kind: Food; amount: 84.20")
    assert said is not None
    read: list[Sequence[tuple[str, str]]] = []

    def following(turns: Sequence[tuple[str, str]], *_: object) -> None:
        read.extend([turns] if turns else [])

    monkeypatch.setattr("app.documents.tables.answer.following", following)
    turns = [("What is owed? " * 1000, "Nothing. " * 1000), ("And for the plumber?", "")]
    scope = Scope(follows=Follows(said, "And for the plumber?"), turns=turns)
    await store.search("How much is owed for the plumber?", 3, scope)
    assert len(read) == 1
    assert max(len(text) for turn in read[0] for text in turn) == MAX_QUERY


async def test_a_word_that_no_table_has_is_read_where_it_stands(store: DocumentStore) -> None:
    await ingest(store, "contacts.csv", b"id,name,relation\nC1,Farid Lind,neighbour\nC2,Ada,aunt\n")
    await ingest(store, "lease.txt", b"Ask first: the neighbour upstairs, Mrs Orr, has asthma.")
    (hit,) = await store.search("Does the neighbour upstairs have asthma?", 3)
    assert "Mrs Orr" in hit.text
