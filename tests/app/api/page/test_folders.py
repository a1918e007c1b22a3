"""`/api/folders`: added, listed with their files, removed."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from app.container import AppState
from cli.server import MAX_HEAD_BYTES
from tests.app.documents.folders.watched import eventually

COUNTS = {"waiting": 0, "words": 0, "indexed": 0, "unread": 0, "left_out": 0}


@pytest.fixture
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    notes = tmp_path_factory.mktemp("notes")  # not in the device's data
    for name, text in (("a.txt", "The key is here."), ("b.md", "It is not."), ("c.txt", "")):
        (notes / name).write_text(text)
    return notes


async def test_a_folder_from_adding_to_removal(
    client: httpx.AsyncClient, real: AppState, notes: Path
) -> None:
    body = {"path": str(notes), "collection": "mine"}
    added = (await client.post("/api/folders", json=body)).raise_for_status().json()
    assert (added["path"], added["collection"]) == (str(notes), "mine")
    folder = f"/api/folders/{added['id']}"

    async def read() -> bool:
        counts = (await client.get(folder)).json()["files"]
        return bool(counts == {**COUNTS, "indexed": 2, "unread": 1})

    await eventually(read)
    assert (await client.get("/api/folders")).json()["data"] == [(await client.get(folder)).json()]
    first = (await client.get(f"{folder}/files?limit=2")).json()
    assert ([each["path"] for each in first["data"]], first["has_more"]) == (
        ["a.txt", "b.md"],
        True,
    )
    (last,) = (await client.get(f"{folder}/files?after=b.md")).json()["data"]
    assert last == {
        "path": "c.txt", "state": "unread", "problem": "The file is empty.", "document": None,
        "localizable": {
            "problem": {"text": "The file is empty.", "code": "file.nothing", "values": {}},
        },
    }  # fmt: skip
    assert (await client.get(f"{folder}/files?state=unread")).json()["data"] == [last]
    file = (await client.get(f"/v1/files/{first['data'][1]['document']}")).json()
    assert (file["filename"], file["collection"]) == ("b.md", "mine")

    removed = await client.delete(folder)
    assert removed.json() == {"id": added["id"], "deleted": True}
    assert (await client.get("/v1/files")).json()["data"] == []
    assert (await client.get("/api/folders")).json() == {"data": []}
    assert (await client.delete(folder)).status_code == 404
    assert (await client.get(f"{folder}/files")).status_code == 404


async def test_what_cannot_be_watched_is_refused_with_its_reason(
    client: httpx.AsyncClient, real: AppState, notes: Path
) -> None:
    for path in ("Notes", str(notes / "nowhere"), str(notes / "a.txt"), "/a\0b"):
        response = await client.post("/api/folders", json={"path": path})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "path")
    assert (await client.post("/api/folders", json={"path": ""})).status_code == 400


async def test_a_path_in_the_home_folder_is_short(
    client: httpx.AsyncClient, real: AppState, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(notes.parent))
    added = (await client.post("/api/folders", json={"path": f"~/{notes.name}"})).json()
    assert (added["path"], added["short"]) == (str(notes), f"~/{notes.name}")
    monkeypatch.setenv("HOME", f"{notes.parent}/another")
    (listed,) = (await client.get("/api/folders")).json()["data"]
    assert listed["short"] == str(notes)


async def test_a_header_tells_the_page_how_to_say_an_error(
    client: httpx.AsyncClient, real: AppState
) -> None:
    reply = await client.post("/api/folders", json={"path": "/nowhere at all"})
    message = json.loads(reply.headers["X-Dragon-Localizable"])
    assert message["text"] == reply.json()["error"]["message"]
    assert (message["code"], message["values"]["path"]) == ("folder.closed", "/nowhere at all")
    assert message["values"]["why"]["code"] == "folder.missing"
    # One that quotes much of what was sent could be more than a client takes.
    reply = await client.post("/api/folders", json={"path": "/" + "ü" * 2000})
    assert "cannot be watched" in reply.json()["error"]["message"]
    assert "X-Dragon-Localizable" not in reply.headers


async def test_the_longest_path_fits_the_head_of_a_request(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()["paths"]["/api/folders/{folder}/files"]
    lengths = {
        each["name"]: each["schema"].get("maxLength") for each in described["get"]["parameters"]
    }
    assert len(quote("\U0001f511" * lengths["after"])) < MAX_HEAD_BYTES
