"""What is redacted of a document, and that nothing of it is left on the disk.

Covers `app.storage.message_search` as well.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from app.conversations.store import ConversationStore
from app.documents.redaction import REDACTED, RUN, QuotedIn, Words, broken_off, merged, replaced
from app.documents.store import DocumentStore
from app.storage.tables import LedgerAnswer, MessageState, StoredMessage
from tests.app.stores import ingest, traces

NOTE = (
    "The walnut drawer of the sideboard holds the opal of Aunt Philomena.\n"
    "The safe's code is 7731-M.\nIt is blue.\n"
)


def redacted(text: str, document: str) -> str:
    words = Words.shared([text], document)
    return replaced(text, merged(text, words.within(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It holds the opal of Aunt Philomena, I read.", f"It {REDACTED}, I read."),
        ("THE WALNUT drawer\n> of the sideboard", REDACTED),
        (
            "The opal of a drawer holds Aunt Philomena.",
            "The opal of a drawer holds Aunt Philomena.",
        ),
        (
            "First: the walnut drawer of the. Then: it holds the opal of Aunt, then.",
            f"First: {REDACTED}. Then: it {REDACTED}, then.",
        ),
        ("", ""),
    ],
)
def test_runs_of_words_are_replaced(text: str, expected: str) -> None:
    assert redacted(text, NOTE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So: The walnut drawer", f"So: {REDACTED}"),
        ("So: the WALNUT\ndra", f"So: {REDACTED}"),
        ("It has wal", f"It has {REDACTED}"),
        ("It has nut", "It has nut"),
        ("The code is 7731", f"The {REDACTED}"),
        ("Of (q", "Of (q"),
        ("", ""),
    ],
)
def test_a_broken_off_answer_may_end_in_fewer_words_of_it(text: str, expected: str) -> None:
    assert replaced(text, broken_off(text, NOTE)) == expected


def test_what_stays_is_in_no_run_of_the_document() -> None:
    """However a text is put together of the document's words and others."""
    words = NOTE.split()
    for step in range(1, 9):
        mixed = [*words]
        for at in range(len(words) - step, 0, -step):
            mixed.insert(at, "elsewhere")
        left = redacted(" ".join(mixed), NOTE).replace(REDACTED, " | ")
        assert not list(Words.shared([left], NOTE).within(left))
        assert (left.count("|") > 0) is (step >= RUN)


@pytest.fixture
def conversations(store: DocumentStore) -> ConversationStore:
    return ConversationStore(store._sessions, store.purge)


async def answered(
    conversations: ConversationStore, question: str, text: str, **record: Any
) -> tuple[str, str]:
    conversation, _, answer = await conversations.ask(None, None, question, private=True)
    tokens = [{"text": word} for word in text.split()]
    await conversations.save(answer.id, MessageState.DONE, text, record, tokens)
    return conversation.id, answer.id


async def test_nothing_is_left_of_a_redacted_document(
    store: DocumentStore, conversations: ConversationStore, tmp_path: Path
) -> None:
    document = await ingest(store, "gems.txt", NOTE.encode())
    cites = {"side": "private", "id": document.id, "title": "gems.txt"}
    first, answer = await answered(
        conversations,
        "What does the walnut drawer of the sideboard hold?",
        "It is blue. Type 7731-M, said she. The stone is in the cupboard. So be it.",
        sources=[{**cites, "text": "It is blue."}],
        citations=[{"start": 60, "end": 63, "source": 0}],
        seams=[[12, True, ""], [68, False, ""]],
        not_asked={"words": "Philomena"},
    )
    other, unread = await answered(conversations, "And then?", "It is blue. 7731-M came after.")
    said = ["holds the opal of Aunt Philomena"]
    values = {"id": "a1", "started_at": 1.0, "private": False, "words": said}
    asked = {"kind": "question", "text": "Is it the walnut drawer of the sideboard?"}
    async with store._sessions.begin() as session:
        await session.execute(insert(LedgerAnswer).values(values))
        also = values | {"id": "a2", "words": ["Blue."], "given": [asked]}
        await session.execute(insert(LedgerAnswer).values(also))

    redaction = await store.redaction(document.id)
    found = await redaction.quoted()
    assert len(found.messages) == 2
    assert answer in found.messages
    assert found.conversations == {first}
    await conversations.redact(redaction)
    await store.delete(document.id)
    await conversations.redact(redaction)

    kept = await conversations.message(answer)
    assert kept.text == f"{REDACTED} Type {REDACTED}, said she. {REDACTED} So be it."
    assert kept.tokens == []
    assert not {"citations", "not_asked"} & kept.record.keys()
    moved = [at for at, *_ in kept.record["seams"]]
    assert [kept.text[at : at + 4] for at in moved] == ["Type", "be i"]
    assert (await conversations.get(first)).title == "What does […] hold?"
    for message in await conversations.messages(first):
        phrases = message.record["phrases"]
        assert [message.text[start:end] for start, end, _ in phrases] == [
            REDACTED
        ] * message.text.count(REDACTED)
    # Of an answer that did not read it only runs of its words are known to be its.
    assert (await conversations.message(unread)).text == "It is blue. 7731-M came after."
    async with store._sessions() as session:
        rows = await session.execute(select(LedgerAnswer.words, LedgerAnswer.given))
        assert [tuple(row) for row in rows] == [(None, None), (["Blue."], None)]
        assert len((await session.scalars(select(StoredMessage))).all()) == 4
    assert [each.id for each, _ in await conversations.list("came", 5)] == [other]
    assert await conversations.list("walnut", 5) == []
    assert traces(tmp_path, b"walnut", b"Philomena", b"gems.txt", document.id.encode()) == []
    assert await redaction.quoted() == QuotedIn()


async def test_what_stands_for_its_words_is_not_taken_for_them(
    store: DocumentStore, conversations: ConversationStore
) -> None:
    note = "It holds the opal. What follows are words of a deleted document."
    document = await ingest(store, "gems.txt", note.encode())
    cites = {"side": "private", "id": document.id, "title": "gems.txt", "text": note}
    first, _, answer = await conversations.ask(None, None, f"So, {note[:-1]}?", private=True)
    broken_off = {"sources": [cites]}
    await conversations.save(answer.id, MessageState.STOPPED, "I see. It holds the op", broken_off)
    redaction = await store.redaction(document.id)
    for _ in range(3):
        await conversations.redact(redaction)
        texts = [message.text for message in await conversations.messages(first.id)]
        assert texts == [f"So, {REDACTED}?", f"I see. {REDACTED}"]
    assert await redaction.quoted() == QuotedIn()


async def test_what_is_stored_while_it_is_redacted_is_redacted_too(
    store: DocumentStore, conversations: ConversationStore, tmp_path: Path
) -> None:
    """Whoever writes an answer has its text, and stores all of it again and again."""
    document = await ingest(store, "gems.txt", NOTE.encode())
    text = "So: the walnut drawer of the sideboard"
    writing = [(await conversations.ask(None, None, "And?", private=True))[2] for _ in range(3)]
    for each in writing:
        await conversations.save(each.id, MessageState.WRITING, text, {})
    redaction = await store.redaction(document.id)
    await asyncio.gather(
        conversations.redact(redaction),
        *(conversations.save(each.id, MessageState.WRITING, f"{text}.", {}) for each in writing),
    )
    await store.delete(document.id)
    for each in writing:
        record = {"response": {"input": [NOTE]}}
        await conversations.save(each.id, MessageState.DONE, f"{text}.", record, [{"text": "So"}])
        kept = await conversations.message(each.id)
        assert kept.text == f"So: {REDACTED}."
        assert kept.tokens == []
    await store.purge.now()
    assert traces(tmp_path, b"walnut", b"Philomena", document.id.encode()) == []
    # The same words in what is written afterwards are somebody's own.
    again = await conversations.reopen(writing[0].id, private=True)
    await conversations.save(again.id, MessageState.DONE, text, {}, [])
    assert (await conversations.message(again.id)).text == text


async def test_a_file_that_could_not_be_read_was_never_quoted(store: DocumentStore) -> None:
    document = await ingest(store, "torn.pdf", b"%PDF-1.7 nothing")
    assert await (await store.redaction(document.id)).quoted() == QuotedIn()


async def test_what_was_sent_before_a_question_is_redacted(
    store: DocumentStore, conversations: ConversationStore, tmp_path: Path
) -> None:
    """A response is kept with turns that its client sent, calls of tools and what they returned."""
    document = await ingest(store, "gems.txt", NOTE.encode())
    quote = "It holds the opal of Aunt Philomena."
    call = {"id": "1", "function": {"name": "look", "arguments": json.dumps({"for": quote})}}
    turns = [
        {"role": "user", "content": "What does it hold?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": f"So: {quote}", "tool_call_id": "1"},
    ]
    _, answer = await answered(conversations, "And?", "Nothing.", response={"input": turns})
    redaction = await store.redaction(document.id)
    assert (await redaction.quoted()).messages == {answer}
    await store.delete(document.id)
    await conversations.redact(redaction)
    asked, called, returned = (await conversations.message(answer)).record["response"]["input"]
    assert asked == turns[0]
    assert called["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert returned["content"] == f"So: It {REDACTED}."
    assert traces(tmp_path, b"Philomena") == []
