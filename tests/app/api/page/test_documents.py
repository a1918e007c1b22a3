"""Deleting documents from the page, with or without their words in chats, and viewing one."""

from __future__ import annotations

import asyncio
import base64
import io
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from PIL import Image

from app.api.page.documents import BEGIN, END, blocks_around, rendered
from app.container import AppState
from app.documents import parsing
from app.documents.redaction import REDACTED
from app.documents.store import DocumentStore
from app.storage.tables import Document, MessageState
from harness.pdf import LINE_HEIGHT, pdf
from tests import fakes
from tests.app.conftest import started
from tests.app.peer_link.toy_peer import until
from tests.app.stores import ingest, traces
from tests.fakes import FakeGeneration

NOTE = "The walnut drawer holds the opal of Aunt Philomena. Nobody knows."


@pytest.fixture
async def gems(store: DocumentStore) -> Document:
    return await ingest(store, "gems.txt", NOTE.encode())


@pytest.fixture
def read(gems: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model answers from."""
    source = replace(fakes.SOURCE, id=gems.id, title="gems.txt", text=NOTE)
    monkeypatch.setattr(fakes, "SOURCE", source)


async def test_several_are_deleted_at_once(
    client: httpx.AsyncClient, real: AppState, store: DocumentStore
) -> None:
    ids = [(await ingest(store, f"{name}.txt", NOTE.encode())).id for name in "ab"]
    reply = await client.post("/api/documents/delete", json={"documents": [*ids, "file-none"]})
    assert reply.json() == {"deleted": ids}
    assert await store.list() == []
    assert (await client.post("/api/documents/delete", json={"documents": []})).status_code == 400


@pytest.mark.usefixtures("read")
async def test_an_answer_that_is_written_from_it_ends_and_is_redacted(
    client: httpx.AsyncClient,
    real: AppState,
    gems: Document,
    generation: FakeGeneration,
    tmp_path: Path,
) -> None:
    generation.script, generation.delay = f"So: {NOTE} " * 40, 0.01
    _, _, answer = await real.conversations.ask(None, None, "What?", private=False)
    run = await started(real, answer)
    async for _ in run.follow():
        if len(run.written.text) > 200:
            break
    some = {"documents": [gems.id]}
    await real.conversations.save(answer.id, MessageState.WRITING, run.written.text, {})
    assert (await client.post("/api/documents/quoted", json=some)).json() == {
        "messages": 1,
        "conversations": 1,
    }
    await client.post("/api/documents/delete", json=some | {"redact": True})
    assert run.over
    kept = await real.conversations.message(answer.id)
    assert kept.state == MessageState.STOPPED
    assert kept.text.startswith(f"So: {REDACTED}")
    assert traces(tmp_path, b"walnut", b"gems.txt", gems.id.encode()) == []
    gone = (await client.post("/api/documents/quoted", json=some)).json()
    assert gone == {"messages": 0, "conversations": 0}


async def test_an_answer_that_goes_on_from_its_words_does_not_bring_them_back(
    client: httpx.AsyncClient,
    real: AppState,
    gems: Document,
    generation: FakeGeneration,
    tmp_path: Path,
) -> None:
    """It has not read the document, so it goes on: from a text that is redacted meanwhile."""
    generation.script, generation.delay = "And so on. " * 200, 0.001
    _, _, first = await real.conversations.ask(None, None, "What?", private=False)
    await real.conversations.save(first.id, MessageState.DONE, f"So: {NOTE} ", {}, [])
    answer = await real.conversations.reopen(first.id, private=False)
    run = await started(real, answer)
    async for _ in run.follow():
        if "And so" in run.written.text:
            break
    await client.post("/api/documents/delete", json={"documents": [gems.id], "redact": True})
    assert not run.over
    run.stop()
    await run.ended()
    kept = await real.conversations.message(answer.id)
    assert kept.state == MessageState.STOPPED
    assert kept.text.startswith(f"So: {REDACTED}. And so on.")
    assert traces(tmp_path, b"walnut", b"gems.txt", gems.id.encode()) == []


@pytest.mark.usefixtures("real", "read")
async def test_a_response_that_is_being_written_is_stored_without_its_words(
    client: httpx.AsyncClient, gems: Document, generation: FakeGeneration, tmp_path: Path
) -> None:
    generation.script, generation.delay = f"So: {NOTE} " * 20, 0.001
    turns = [("user", "What?"), ("assistant", NOTE), ("user", "Once more?")]
    body = {"model": "dragon-7m", "input": [{"role": r, "content": c} for r, c in turns]}
    asking = asyncio.create_task(client.post("/v1/responses", json=body))
    await until(lambda: traces(tmp_path, b"Once more?") and generation.active)
    await client.post("/api/documents/delete", json={"documents": [gems.id], "redact": True})
    assert not asking.done()
    reply = (await asking).raise_for_status().json()
    kept = await client.get(f"/v1/responses/{reply['id']}")
    assert REDACTED in kept.json()["output"][-1]["content"][0]["text"]
    assert traces(tmp_path, b"walnut", b"gems.txt", gems.id.encode()) == []


async def test_a_page_is_drawn_with_the_passage_marked(
    client: httpx.AsyncClient, real: AppState, store: DocumentStore
) -> None:
    lease = pdf("First page.", "The rent is due in May.\nDogs need written\nconsent.\nSigned: A.")
    document = await ingest(store, "lease.pdf", lease)
    url = f"/api/documents/{document.id}"
    whole = (await client.get(f"{url}/view", params={"start": 0, "end": 1000})).json()
    assert whole["text"].splitlines()[0] == "First page.", "pages stand on lines of their own"
    assert "\f" not in whole["text"]
    start = whole["text"].index("Dogs")
    passage = {"mark": start, "until": whole["text"].index("consent.") + 8}
    seen = (await client.get(f"{url}/view", params={"start": 0, "end": 9, **passage})).json()
    assert (seen["page"], seen["pages"]) == (2, 2)
    drawn = (await client.get(f"{url}/page", params={"number": 2, **passage})).json()
    picture = Image.open(io.BytesIO(base64.b64decode(drawn["picture"])))
    yellow = [
        y / picture.height
        for y in range(picture.height)
        for x in range(0, picture.width, 4)
        if picture.getpixel((x, y)) == (255, 222, 89)
    ]
    assert min(yellow) == pytest.approx(drawn["mark"], abs=0.001)
    line = LINE_HEIGHT / 842
    assert line < max(yellow) - min(yellow) < 2.5 * line  # both of its lines, not the one after
    unmarked = (await client.get(f"{url}/page", params={"number": 1, **passage})).json()
    assert unmarked["mark"] is None
    assert (await client.get(f"{url}/page", params={"number": 3})).status_code == 404


async def test_a_passage_of_any_length_and_letters_is_marked(
    client: httpx.AsyncClient, real: AppState, store: DocumentStore, tmp_path: Path
) -> None:
    """Once it was handed over in the environment, which holds 128 kB and no zeros."""
    document = await ingest(store, "lease.pdf", pdf("The rent is due in May."))
    text = "The rent\0 is due in May." + " \u2767" * 100_000
    (tmp_path / "files" / document.id / "text").write_text(text)
    passage = {"number": 1, "mark": 0, "until": len(text)}
    drawn = await client.get(f"/api/documents/{document.id}/page", params=passage)
    assert drawn.json()["mark"] == pytest.approx(0.06, abs=0.05)


async def test_a_mark_may_begin_at_the_very_top_or_lie_beyond_what_a_page_shows(
    client: httpx.AsyncClient, real: AppState, store: DocumentStore
) -> None:
    lease = pdf("The rent is due in May.")
    top = lease.replace(b" 50 780 Td", b" 50 834 Td")
    cut = lease.replace(b"[0 0 595 842] ", b"[0 800 59 842]")
    for content, mark in ((top, 0.0), (cut, None)):
        document = await ingest(store, "lease.pdf", content)
        passage = {"number": 1, "mark": 0, "until": 23}
        drawn = await client.get(f"/api/documents/{document.id}/page", params=passage)
        assert drawn.json()["picture"]
        assert drawn.json()["mark"] == mark


TAKEN = """
import select, struct, sys
def write(kind, number, data=b""):
    sys.stdout.buffer.write(struct.pack("!ci", kind, number) + data)
    sys.stdout.buffer.flush()
def say(data):
    write(b"d", len(data), data)
for job in sys.stdin:
    {says}
    write(b"e", 0)
"""


TAKEN_OVER = [
    ("while not select.select([sys.stdin], [], [], 0)[0]: say(b'?' * 99_999)", 1),  # endless
    ("say(b'no\\n')", 60),
    ('say(b\'{"picture": "", "mark": NaN}\\n\')', 60),  # nowhere
    ('say(b\'{"kind": "pdf", "note": null, "properties": {}}\\n\')', 60),  # what is read
]


async def test_of_a_drawer_that_a_pdf_took_over_little_is_believed(
    client: httpx.AsyncClient,
    real: AppState,
    store: DocumentStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    document = await ingest(store, "lease.pdf", pdf("The rent is due in May."))
    taken = tmp_path / "taken.py"
    monkeypatch.setattr(parsing, "_WORKER", taken)
    for says, seconds in TAKEN_OVER:
        await store._ingestion.parsing.close()  # the one that read it, or that drew before
        taken.write_text(TAKEN.format(says=says))
        monkeypatch.setattr(parsing, "_DRAW_CLOCK_SECONDS", seconds)
        drawn = await client.get(f"/api/documents/{document.id}/page", params={"number": 1})
        assert drawn.status_code == 404, says


async def test_what_is_no_pdf_or_no_longer_one_is_not_drawn(
    client: httpx.AsyncClient, real: AppState, store: DocumentStore, tmp_path: Path
) -> None:
    note = await ingest(store, "note.txt", NOTE.encode())
    url = f"/api/documents/{note.id}"
    assert (await client.get(f"{url}/view", params={"start": 0, "end": 9})).json()["pages"] is None
    assert (await client.get(f"{url}/page", params={"number": 1})).status_code == 404
    lease = await ingest(store, "lease.pdf", pdf("The rent is due in May."))
    with await store.content(lease.id) as original:
        Path(original.name).write_bytes(b"%PDF-1.4 damaged")
    refused = await client.get(f"/api/documents/{lease.id}/page", params={"number": 1})
    assert refused.status_code == 404
    assert "cannot be shown" in refused.json()["error"]["message"]


BOAT = (
    "# The boat\n\nIt is *old*. It is kept in the shed.\n\n- oars\n- a rope\n\n"
    "| what | where |\n|---|---|\n| anchor | bow |\n"
)


@pytest.mark.parametrize(
    ("passage", "html"),
    [
        ("# The boat", f"<h1>{BEGIN}The boat{END}</h1>"),
        ("It is kept in the shed.", f"</em>. {BEGIN}It is kept in the shed.{END}</p>"),
        ("- a rope\n", f"<li>{BEGIN}a rope{END}</li>"),
        ("| anchor | bow |\n", f"<td>{BEGIN}anchor</td>\n<td>bow{END}</td>"),
    ],
)
def test_a_passage_is_marked_within_its_block(passage: str, html: str) -> None:
    start = BOAT.index(passage)
    whole = rendered(BOAT, start, start + len(passage))
    assert html in whole
    assert whole.replace(BEGIN, "").replace(END, "") == rendered(BOAT)


def test_a_text_brings_no_marks_and_no_html() -> None:
    assert (
        rendered(f"{BEGIN}<script>x</script>{END}") == "<p>�&lt;script&gt;x&lt;/script&gt;�</p>\n"
    )


def test_whole_blocks_are_shown_where_they_are_near() -> None:
    start = BOAT.index("kept")
    first, last = blocks_around(BOAT, start, start + 4)
    assert BOAT[first:last] == "It is *old*. It is kept in the shed."
    assert blocks_around(BOAT, 0, len(BOAT)) == (0, len(BOAT))
    long = "word " * 4000
    assert blocks_around(long, 10_000, 10_010) == (10_000, 10_010)
