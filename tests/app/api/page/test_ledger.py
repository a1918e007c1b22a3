"""The chain of the ledger, which goes on after a restart, and what it lists.

Covers `app.ledger.leakage`, `app.ledger.verify`, `app.ledger.writer` and `app.storage.purge`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import delete, text

from app.ledger import verify
from app.ledger.leakage import GramCounts, Outbound, left, quoted
from app.ledger.writer import Ledger, Passage, ProgramRead
from app.owners import everyone
from app.storage.database import connect, session_maker
from app.storage.purge import blank_words
from app.storage.tables import Document, Status
from dragon.errors import InvalidRequestError
from dragon.link import control, registry
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from tests.app.stores import migrated

DOCUMENT = (1, 2, 3, 4, 5, 6, 7)
READ = ProgramRead("assistant 1", "read_passage", 12, (Passage("file-1", 3, 15),))


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[Ledger]:
    database = connect(migrated(data_dir))
    sessions = session_maker(database)
    async with sessions.begin() as session:
        for name in ("file-1", "file-2"):
            document = Document(id=name, filename="a.txt", bytes=1, status=Status.PROCESSED)
            await session.merge(document)
    ledger = Ledger(sessions)
    await ledger.start()
    yield ledger
    await ledger.close()
    await database.dispose()


def decode(tokens: Sequence[int]) -> str:
    return " ".join(f"w{token}" for token in tokens)


def send(ledger: Ledger, message: registry.Message, stream: int) -> None:
    ledger.sent(stream, message, registry.encode(message, stream))


def write(ledger: Ledger, answer: str, generation: int) -> None:
    with ledger.begin(answer, decode, private=False) as account:
        ledger.opened(generation, answer)
        for number in range(3):
            send(ledger, Join(number, 0, (1, 2)), generation)
        send(ledger, control.Ping(number=1), registry.LINK)
        send(ledger, control.Close(reason="finished"), generation)
        account.wrote([("file-1", DOCUMENT)], (1, 2, 3, 4, 5, 6), 6)


async def test_the_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    heads = []
    for number in (1, 2):
        async with opened(tmp_path) as ledger:
            write(ledger, f"answer-{number}", number + 1)
            await ledger.written()
            found = await verify.verify(ledger.sessions)
            assert (found.answers, found.entries) == (number, 6 * number)
            heads.append(found.head)
    assert heads[0] != heads[1]


async def test_it_is_verified_while_answers_are_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        for number in range(20):
            write(ledger, f"answer-{number}", number + 1)
            _, found = await asyncio.gather(ledger.written(), verify.verify(ledger.sessions))
            assert found.entries in (6 * number, 6 * (number + 1))


async def test_who_waits_may_go_away_in_mid_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        for number in range(20):
            write(ledger, f"answer-{number}", number + 1)
            waiting = asyncio.create_task(ledger.written())
            for _ in range(number):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await ledger.written()
        assert (await verify.verify(ledger.sessions)).entries == 120


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_entries SET bytes = bytes + 1 WHERE seq = 3",
        "UPDATE ledger_entries SET kind = 'open' WHERE seq = 3",
        "UPDATE ledger_entries SET at = at + 1 WHERE seq = 3",
        "UPDATE ledger_entries SET digest = hash WHERE seq = 3",
        "UPDATE ledger_entries SET answer = 'answer-2' WHERE seq = 3",
        "DELETE FROM ledger_entries WHERE seq = 3",
        "DELETE FROM ledger_entries WHERE seq = 1",
        "DELETE FROM ledger_entries WHERE answer = 'answer-2'",
        "DELETE FROM ledger_entries WHERE seq = 12",
        "UPDATE ledger_answers SET private = 1 WHERE id = 'answer-1'",
        "UPDATE ledger_answers SET drafts = 9 WHERE id = 'answer-1'",
        """UPDATE ledger_answers SET words = '["w1"]' WHERE id = 'answer-1'""",
        "UPDATE ledger_answers SET asked = 'prompt' WHERE id = 'answer-1'",
        """UPDATE ledger_answers SET given = '["x"]' WHERE id = 'answer-1'""",
        "UPDATE ledger_answers SET given_digest = digest WHERE id = 'answer-1'",
        "DELETE FROM ledger_answers WHERE id = 'answer-1'",
        "UPDATE ledger_reads SET reader = 'nobody'",
        "UPDATE ledger_reads SET passages = '[]'",
        "DELETE FROM ledger_reads",
        "DELETE FROM ledger_entries WHERE kind = 'read'",
        "UPDATE ledger_entries SET bytes = 1 WHERE kind = 'read'",
    ],
)
async def test_a_change_is_found(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path) as ledger:
        write(ledger, "answer-1", 1)
        write(ledger, "answer-2", 2)
        await ledger.read(READ)
        found = await verify.verify(ledger.sessions)
        assert (found.answers, found.entries) == (2, 13)
        async with ledger.sessions.begin() as session:
            with everyone():
                await session.execute(text(change))
        with pytest.raises(verify.LedgerDamagedError):
            await verify.verify(ledger.sessions)


def draft(position: int, token: int, epoch: int = 0) -> Draft:
    side = Side(WireDistribution.of([token], [1 << 16]), 0)
    return Draft(0, epoch, position, 0, 0, token, 0, side)


def test_every_message_that_a_device_sends_is_accounted_for() -> None:
    telling = {control.Open, control.Fetch, control.ScoreText}
    telling |= {Join, Candidate, Draft, Target, Correction}
    kinds = (*registry._TEXT, *registry._BINARY)
    sent = {kind.message for kind in kinds if Role.DEVICE in kind.sender.value}
    assert telling < sent
    for message in sent - telling:
        outbound = Outbound()
        outbound.note(message.model_construct())
        assert outbound == Outbound(), message
    with pytest.raises(TypeError, match="what a Ready reveals"):
        Outbound().note(control.Ready.model_construct())


def test_rejected_drafts_quote_too() -> None:
    outbound = Outbound(documents=[DOCUMENT], committed=(1, 2, 9, 4, 5, 6), told=6)
    for position, token in enumerate((1, 2, 3, 4, 5)):
        outbound.note(draft(position, token))
    # The draft at position 2 was rejected for 9, and the next one goes on behind that.
    outbound.note(draft(3, 4, epoch=1))
    assert quoted([outbound]) == GramCounts(3, 1, 0)


def test_a_draft_behind_committed_text_ends_a_five_gram() -> None:
    outbound = Outbound(documents=[DOCUMENT], committed=(1, 2, 3, 4, 8), told=5)
    outbound.note(draft(4, 5))
    assert quoted([outbound]) == GramCounts(3, 1, 0)


OPEN = control.Open(
    conversation=(1,), raw=False, query="Where?", top_k=2, mode=Mode.ONEWAY,
    sampling=Sampling(temperature=0.0, seed=1), max_tokens=8, catch_up=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "Nothing left this device"),
        ([OPEN, Correction(0, 3, 0, 0, ())], "Your question"),
        ([OPEN.model_copy(update={"raw": True})], "Your prompt"),
        (
            [OPEN, Correction(0, 0, 0, 0, (1, 2)), Correction(0, 2, 0, 0, (3,))],
            "Your question and these words: “w1 w2 w3”",
        ),
        (
            [OPEN, Correction(0, 0, 0, 0, (1,)), Correction(0, 5, 0, 0, (1, 2)), Join(1, 0, (1,))],
            "Your question and these words: “w1”, “w1 w2”",
        ),
        ([OPEN.model_copy(update={"committed": (4, 5)})], "Your question and these words: “w4 w5”"),
        # Rejected drafts, too, where drafts are sent.
        (
            [OPEN, draft(0, 1), draft(1, 2), draft(1, 3, epoch=1), draft(2, 4, epoch=1)],
            "Your question and these words: “w1 w2”, “w3 w4”",
        ),
    ],
)
def test_what_left_in_plain_words(messages: list[registry.Message], said: str) -> None:
    outbound = Outbound()
    for message in messages:
        outbound.note(message)
    assert str(left([outbound], decode, ())) == said


async def test_words_go_with_the_document_they_may_come_from(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        for answer, stream in (("answer-1", 1), ("answer-2", 2)):
            with ledger.begin(answer, decode, private=False) as account:
                ledger.opened(stream, answer)
                send(ledger, OPEN, stream)
                send(ledger, Correction(0, 0, 0, 0, (7, 8)), stream)
                account.wrote([(f"file-{stream}", DOCUMENT)], (7, 8), 2)
        await ledger.written()
        async with ledger.sessions.begin() as session:
            await blank_words(session, "file-1")
        await verify.verify(ledger.sessions)
        found = await verify.answers(ledger.sessions, 9, None)
        told = [str(verify.left(row)) for row, _, _ in found]
    assert told == [
        "Your question and these words: “w7 w8”",
        "Your question, and perhaps words of a document that was deleted since",
    ]


async def test_a_document_deleted_in_mid_answer_leaves_no_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        with ledger.begin("answer-1", decode, private=False) as account:
            ledger.opened(1, "answer-1")
            send(ledger, OPEN, 1)
            account.wrote([("file-1", DOCUMENT)], (7, 8), 2)
            async with ledger.sessions.begin() as session:
                await session.execute(delete(Document).where(Document.id == "file-1"))
        await ledger.read(READ)
        await verify.verify(ledger.sessions)
        ((row, _, _),) = await verify.answers(ledger.sessions, 9, None)
        (read,) = await verify.reads(ledger.sessions, 9, None)
    assert (row.words, row.sources, read.passages) == (None, None, None)


async def test_reads_are_listed_newest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        given = [ProgramRead("assistant", "search_documents", size) for size in range(5)]
        for each in given:
            await ledger.read(each)
        newest = [row.id for row in await verify.reads(ledger.sessions, 2, None)]
        assert newest == [given[4].id, given[3].id]
        older = await verify.reads(ledger.sessions, 9, newest[-1])
        assert [row.bytes for row in older] == [2, 1, 0]
        with pytest.raises(InvalidRequestError):
            await verify.reads(ledger.sessions, 1, "read-of-nobody")


async def test_a_deleted_document_is_named_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.read(READ)
        await ledger.read(ProgramRead("assistant 1", "read_passage", 5, (Passage("file-2", 0, 5),)))
        async with ledger.sessions.begin() as session:
            await blank_words(session, "file-1")
        other, gone = await verify.reads(ledger.sessions, 2, None)
        assert gone.passages is None
        assert other.passages == [{"document": "file-2", "start": 0, "end": 5}]
        assert (await verify.verify(ledger.sessions)).entries == 2
