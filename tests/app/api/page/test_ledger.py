"""The chain of the ledger: any later change to it is found, and it goes on after a restart.

Covers `app.ledger.leakage`, `app.ledger.verify` and `app.ledger.writer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from app.ledger import verify
from app.ledger.leakage import Hop, Outbound, Quoted, quoted
from app.ledger.writer import Ledger
from app.storage.database import connect, database_url, migrate, session_maker
from dragon.link import control, registry
from dragon.protocol.messages import Draft, Join
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import WireDistribution

DOCUMENT = (1, 2, 3, 4, 5, 6, 7)


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[Ledger]:
    url = database_url(data_dir)
    await asyncio.to_thread(migrate, url)
    database = connect(url)
    ledger = Ledger(session_maker(database))
    await ledger.start()
    yield ledger
    await ledger.close()
    await database.dispose()


def send(ledger: Ledger, message: registry.Message, stream: int) -> None:
    ledger.sent(stream, message, registry.encode(message, stream))


def write(ledger: Ledger, answer: str, generation: int) -> None:
    with ledger.begin(answer, private=False) as account:
        ledger.opened(generation, answer)
        for number in range(3):
            send(ledger, Join(number, 0, (1, 2)), generation)
        send(ledger, control.Ping(number=1), registry.LINK)
        send(ledger, control.Close(reason="finished"), generation)
        account.wrote([DOCUMENT], (1, 2, 3, 4, 5, 6), 6)


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
        "DELETE FROM ledger_answers WHERE id = 'answer-1'",
    ],
)
async def test_a_change_is_found(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path) as ledger:
        write(ledger, "answer-1", 1)
        write(ledger, "answer-2", 2)
        await ledger.written()
        await verify.verify(ledger.sessions)
        async with ledger.sessions.begin() as session:
            await session.execute(text(change))
        with pytest.raises(verify.LedgerDamagedError):
            await verify.verify(ledger.sessions)


def draft(position: int, token: int, epoch: int = 0) -> Draft:
    side = Side(WireDistribution.of([token], [1 << 16]), 0)
    return Draft(0, epoch, position, 0, 0, token, 0, side)


def test_rejected_drafts_quote_too() -> None:
    outbound = Outbound()
    for position, token in enumerate((1, 2, 3, 4, 5)):
        outbound.note(draft(position, token))
    # The draft at position 2 was rejected for 9, and the next one goes on behind that.
    outbound.note(draft(3, 4, epoch=1))
    hop = Hop(outbound, [DOCUMENT], (1, 2, 9, 4, 5, 6), 6)
    assert quoted([hop]) == Quoted(3, 1, 0)


def test_a_draft_behind_committed_text_ends_a_five_gram() -> None:
    outbound = Outbound()
    outbound.note(draft(4, 5))
    assert quoted([Hop(outbound, [DOCUMENT], (1, 2, 3, 4, 8), 5)]) == Quoted(3, 1, 0)
