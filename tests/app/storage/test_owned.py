"""Whose rows statements touch, whatever they look like.

Covers `app.owners`, `app.erasing` and `app.storage.owned`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, delete, exists, func, select, text, update
from sqlalchemy.orm import aliased

from app.erasing import left_by
from app.owners import DEVICE, act_as, acting, acting_as, everyone
from app.storage.database import Sessions, connect, session_maker
from app.storage.owned import Owned, Shareable
from app.storage.tables import Base, Chunk, Conversation, Document, PassageSpending
from dragon.errors import NotYoursError
from tests.app.stores import migrated

Other = aliased(Document)


def document(name: str, *, shared: bool = False) -> Document:
    return Document(
        id=f"file-{name}", filename=name, purpose="user_data", kind="text", bytes=1, created_at=1,
        status="processed", status_details=None, shared=shared,
    )  # fmt: skip


def chunk(name: str, *, shared: bool = False) -> Chunk:
    return Chunk(
        document_id=f"file-{name}", text=name, context="", page=None, start=0, end=1, shared=shared
    )


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    """With a document of the device's, one of Anna's, one that she shares, and one of Ben's."""
    engine = connect(migrated(tmp_path))
    made = session_maker(engine)
    for owner, name, shared in (
        (DEVICE, "device", False),
        ("anna", "anna", False),
        ("anna", "common", True),
        ("ben", "ben", False),
    ):
        with acting_as(owner):
            async with made.begin() as session:
                session.add(document(name, shared=shared))
                await session.flush()
                session.add(chunk(name, shared=shared))
                session.add(Conversation(id=name, title=name, created_at=1, updated_at=1))
    yield made
    await engine.dispose()


_NAMES = Document.filename
READS: dict[str, Select[Any]] = {
    "rows": select(Document).with_only_columns(_NAMES),
    "a join": select(Chunk.text).join(Document, Document.id == Chunk.document_id),
    "a join the other way": select(_NAMES).join(Chunk, Chunk.document_id == Document.id),
    "an outer join": select(Chunk.text).outerjoin(Document, Document.id == Chunk.document_id),
    "a table in the condition alone": select(Chunk.text).where(Chunk.document_id == Document.id),
    "a query within": select(Chunk.text).where(Chunk.document_id.in_(select(Document.id))),
    "exists": select(Chunk.text).where(exists().where(Document.id == Chunk.document_id)),
    "an alias": select(Other.filename),
    "chunks": select(Chunk.text),
    "a table expression": select(select(_NAMES).cte().c.filename),
}
COUNTS: dict[str, Select[Any]] = {
    "from": select(func.count()).select_from(Document),
    "in the condition alone": select(func.count()).where(Document.filename != ""),
    "of a column": select(func.count(Document.id)),
    "within": select(select(func.count(Document.id)).scalar_subquery()),
}


@pytest.mark.parametrize("statement", READS.values(), ids=READS)
async def test_one_reads_ones_own_and_what_is_shared(
    sessions: Sessions, statement: Select[Any]
) -> None:
    for _ in range(2):  # what is kept of a statement is not kept of whom it was for
        for owner, expected in (
            (DEVICE, {"device", "common"}),
            ("anna", {"anna", "common"}),
            ("ben", {"ben", "common"}),
            ("nobody", {"common"}),
        ):
            with acting_as(owner):
                async with sessions() as session:
                    assert set(await session.scalars(statement)) == expected
    with everyone():
        async with sessions() as session:
            assert len(set(await session.scalars(statement))) == 4


@pytest.mark.parametrize("statement", COUNTS.values(), ids=COUNTS)
async def test_one_counts_no_others(sessions: Sessions, statement: Select[Any]) -> None:
    for owner, expected in (("anna", 2), ("ben", 2), ("nobody", 1)):
        with acting_as(owner):
            async with sessions() as session:
                assert await session.scalar(statement) == expected


async def test_what_is_not_to_be_shared_is_ones_own(sessions: Sessions) -> None:
    for owner in ("anna", "ben"):
        with acting_as(owner):
            async with sessions() as session:
                expected = {"anna": {"anna", "common"}, "ben": {"ben"}}[owner]
                assert set(await session.scalars(select(Conversation.title))) == expected
                assert await session.get(Conversation, "device") is None


async def test_one_changes_ones_own_alone(sessions: Sessions) -> None:
    with acting_as("ben"):
        async with sessions.begin() as session:
            renamed = update(Document).values(filename="ben's").returning(Document.id)
            assert list(await session.scalars(renamed)) == ["file-ben"]
            for identity in ("file-anna", "file-common"):
                gone = delete(Document).where(Document.id == identity).returning(Document.id)
                assert await session.scalar(gone) is None
        with pytest.raises(NotYoursError):
            async with sessions.begin() as session:
                (await session.get_one(Document, "file-common")).filename = "ben's"
        with pytest.raises(NotYoursError):
            async with sessions.begin() as session:
                await session.delete(await session.get_one(Document, "file-common"))
    with everyone():
        async with sessions() as session:
            names = set(await session.scalars(select(Document.filename)))
    assert names == {"device", "anna", "common", "ben's"}


async def test_what_cannot_be_limited_is_refused(sessions: Sessions) -> None:
    async with sessions() as session:
        for statement in (text("SELECT * FROM documents"), select(Document.__table__)):
            with pytest.raises(RuntimeError, match="cannot be limited"):
                await session.execute(statement)


async def test_where_nobody_acts_nothing_is_read(sessions: Sessions) -> None:
    async def read() -> None:
        async with sessions() as session:
            await session.execute(select(Document))

    def in_a_thread() -> None:  # which inherits nothing
        asyncio.run(read())

    with pytest.raises(LookupError):
        await asyncio.get_running_loop().run_in_executor(None, in_a_thread)
    with everyone(), pytest.raises(LookupError):
        acting()


async def test_what_a_task_begins_acts_for_the_same(sessions: Sessions) -> None:
    async def names() -> set[str]:
        async with sessions() as session:
            return set(await session.scalars(select(Document.filename)))

    async def request(owner: str) -> set[str]:
        act_as(owner)
        return await asyncio.create_task(names())

    found = await asyncio.gather(request("anna"), request("ben"))
    assert found == [{"anna", "common"}, {"ben", "common"}]
    assert acting() == DEVICE


def test_every_table_has_owners() -> None:
    """But that of budgets, whose passages are known by digests that say whose they are."""
    tables = {mapper.class_ for mapper in Base.registry.mappers}
    assert {each for each in tables if not issubclass(each, Owned | Shareable)} == {PassageSpending}


async def test_what_a_key_has_left_is_counted(sessions: Sessions, tmp_path: Path) -> None:
    assert left_by("anna", tmp_path) == "2 documents and 2 conversations"
    assert left_by("clara", tmp_path) == ""
    assert left_by("anna", tmp_path / "elsewhere") == ""


KEEPS_HOUSE = {
    "conversations/store.py", "documents/erasure.py",
    "documents/search.py", "documents/store.py", "ledger/verify.py",
    "ledger/writer.py", "storage/full_text.py", "storage/message_search.py",
}  # fmt: skip
# Names a table otherwise than by its class, which is not limited: to insert into it.
INSERTS = {"documents/ingestion.py"}


def test_what_is_not_limited_is_known() -> None:
    """A module that is new here has to be looked at: what does it do with the rows of others?"""
    app = Path(__file__).parents[3] / "app"
    texts = {str(path.relative_to(app)): path.read_text("utf-8") for path in app.rglob("*.py")}
    keeping = {name for name, text in texts.items() if re.search(r"\b(everyone|may_all)\(", text)}
    assert keeping - {"owners.py", "storage/owned.py"} == KEEPS_HOUSE
    naming = {name for name, text in texts.items() if "__table__" in text or ".tables[" in text}
    assert naming == INSERTS
