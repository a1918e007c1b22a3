"""The files API as clients use it: over HTTP, with the real store behind it.

Covers `app.api.openai.search`.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from harness.pdf import pdf
from tests.app.conftest import HEADERS, KEY
from tests.app.stores import NOTE, OTHER
from tests.samples import prose


@pytest.fixture
def client(library: str) -> Iterator[httpx.Client]:
    url = f"http://{library}/v1"
    with httpx.Client(base_url=url, headers=HEADERS, timeout=60, verify=False) as client:
        yield client


def events(client: httpx.Client, file_id: str) -> list[dict[str, Any]]:
    with client.stream("GET", f"/files/{file_id}/events") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def upload(client: httpx.Client, name: str, content: bytes, **data: str) -> httpx.Response:
    return client.post("/files", files={"file": (name, content)}, data=data)


def error(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body = response.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    return body


def incoming(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "incoming").iterdir(), *(tmp_path / "files").iterdir()]


def test_a_file_that_expires(library: str, client: httpx.Client) -> None:
    stock = openai.OpenAI(base_url=f"http://{library}/v1", api_key=KEY, max_retries=0)
    expiry = {"anchor": "created_at", "seconds": 3600}
    created = stock.files.create(file=("key.txt", NOTE), purpose="assistants", expires_after=expiry)
    assert created.expires_at == pytest.approx(created.created_at + 3600, abs=2)
    assert stock.files.retrieve(created.id).expires_at == created.expires_at
    for changed, param in (
        ({"expires_after[seconds]": "3599"}, "expires_after[seconds]"),
        ({"expires_after[seconds]": "soon"}, "expires_after[seconds]"),
        ({"expires_after[seconds]": "3600.0"}, "expires_after[seconds]"),
        ({"expires_after[seconds]": "3_600"}, "expires_after[seconds]"),
        ({"expires_after[anchor]": "now"}, "expires_after[anchor]"),
        ({"expires_after": "3600"}, "expires_after"),
    ):
        fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        refused = error(upload(client, "key.txt", NOTE, **fields | changed), 400)
        assert refused["param"] == param


def test_from_upload_to_deletion(client: httpx.Client) -> None:
    created = upload(client, "key.txt", NOTE, purpose="assistants").json()
    assert created == {
        "id": created["id"], "object": "file", "bytes": len(NOTE), "filename": "key.txt",
        "created_at": created["created_at"], "purpose": "assistants", "status": "uploaded",
        "status_details": None, "collection": "", "chunks": 0,
    }  # fmt: skip
    progress = events(client, created["id"])
    stages = {each["stage"]: each["status"] for each in progress}
    assert list(stages.items()) == [
        ("stored", "uploaded"),
        ("parsed", "uploaded"),
        ("chunked", "uploaded"),
        ("embedded", "uploaded"),
        ("indexed", "processed"),
    ]
    assert progress[-1] == {
        "stage": "indexed", "status": "processed", "done": 1, "total": 1, "message": None,
        "percent": 100, "seconds_left": None,
    }  # fmt: skip
    processed = client.get(f"/files/{created['id']}").json()
    assert processed == {**created, "status": "processed", "chunks": 1}
    assert client.get("/files").json() == {
        "object": "list", "data": [processed], "has_more": False,
        "first_id": created["id"], "last_id": created["id"],
    }  # fmt: skip

    found = client.post("/search", json={"query": "Where is the spare key?", "top_k": 2}).json()
    (hit,) = found["data"]
    assert found["object"] == "list"
    assert 0.35 < hit.pop("score") <= 1.25
    assert hit == {
        "document": created["id"], "filename": "key.txt", "text": NOTE.decode().strip(),
        "page": None, "start": 0, "end": len(NOTE) - 1, "confidence": None,
    }  # fmt: skip

    content = client.get(f"/files/{created['id']}/content")
    assert content.content == NOTE
    assert content.headers["content-type"].startswith("text/plain")
    assert content.headers["content-disposition"].startswith("attachment")
    assert content.headers["x-content-type-options"] == "nosniff"

    deleted = client.delete(f"/files/{created['id']}")
    assert deleted.json() == {"id": created["id"], "object": "file", "deleted": True}
    assert client.get("/files").json()["data"] == []
    assert client.post("/search", json={"query": "key"}).json()["data"] == []


def test_the_openai_client_works(library: str) -> None:
    client = openai.OpenAI(base_url=f"http://{library}/v1", api_key=KEY)
    first = client.files.create(file=("key.txt", NOTE), purpose="user_data")
    assert client.files.wait_for_processing(first.id, poll_interval=0.05).status == "processed"
    names = [f"note {number}.md" for number in range(3)]
    for name in names:
        client.files.create(file=(name, NOTE), purpose="assistants")
    listed = client.files.list(limit=2, purpose="assistants")
    assert len(listed.data) == 2
    assert {file.filename for file in listed} == set(names)  # fetches the second page too
    assert client.files.retrieve(first.id).filename == "key.txt"
    assert client.files.content(first.id).read() == NOTE
    assert client.files.delete(first.id).deleted
    with pytest.raises(openai.NotFoundError, match="There is no file"):
        client.files.retrieve(first.id)


def test_the_order_and_pages_of_the_list(client: httpx.Client) -> None:
    ids = {upload(client, f"{number}.txt", NOTE).json()["id"] for number in range(5)}
    everything = [file["id"] for file in client.get("/files").json()["data"]]
    assert set(everything) == ids
    oldest_first = client.get("/files", params={"order": "asc"}).json()["data"]
    assert [file["id"] for file in oldest_first] == everything[::-1]
    second = client.get("/files", params={"limit": 2, "after": everything[1]}).json()
    assert [file["id"] for file in second["data"]] == everything[2:4]
    assert (second["has_more"], second["last_id"]) == (True, everything[3])
    assert error(client.get("/files", params={"after": "file-x"}), 400)["param"] == "after"
    for wrong in ({"limit": 0}, {"limit": "many"}, {"order": "random"}):
        error(client.get("/files", params=wrong), 400)


def test_files_that_cannot_be_read_say_why(client: httpx.Client) -> None:
    for name, content, words in (
        ("binary.txt", bytes(range(256)) * 20, "not text"),
        ("secret.pdf", pdf("Hidden.", encrypted=True), "encrypted"),
        ("blank.pdf", pdf(""), "no text"),
        ("photo.gif", b"GIF89a" + bytes(100), "GIF image"),
    ):
        created = upload(client, name, content).json()
        assert created["status"] == "uploaded"
        path = f"/files/{created['id']}"
        last = events(client, created["id"])[-1]
        assert last["status"] == "error"
        assert words in last["message"]
        file = client.get(path).json()
        assert (file["status"], file["status_details"]) == ("error", last["message"])
        assert client.get(f"{path}/content").content == content
        assert words in error(client.get(f"{path}/text"), 400)["message"]
        again = client.post(f"{path}/retry").json()
        assert (again["status"], again["status_details"]) == ("uploaded", None)
        assert events(client, created["id"])[-1]["message"] == last["message"]


def test_there_is_no_text_before_a_file_is_read(client: httpx.Client, tmp_path: Path) -> None:
    path = f"/files/{upload(client, 'key.txt', NOTE).json()['id']}"
    assert "not read yet" in error(client.get(f"{path}/text"), 400)["message"]
    assert client.post(f"{path}/cancel").json()["status"] == "error"
    assert "cancelled" in error(client.get(f"{path}/text"), 400)["message"]
    # Cancelled between its text and its row.
    (tmp_path / path[1:] / "text").write_bytes(NOTE)
    assert "cancelled" in error(client.get(f"{path}/text"), 400)["message"]


def test_what_is_refused_leaves_nothing(client: httpx.Client, tmp_path: Path) -> None:
    empty = error(upload(client, "empty.txt", b""), 400)
    assert (empty["param"], empty["code"]) == ("file", "invalid_document")
    unknown = error(upload(client, "key.txt", NOTE, encoding="latin-1"), 400)
    assert (unknown["param"], unknown["code"]) == ("encoding", "unknown_parameter")
    assert client.get("/files").json()["data"] == []
    assert incoming(tmp_path) == []


def test_collections(client: httpx.Client) -> None:
    def names(**params: str) -> list[str]:
        return [file["filename"] for file in client.get("/files", params=params).json()["data"]]

    work = upload(client, "key.txt", NOTE, collection="work").json()
    home = upload(client, "key.txt", NOTE, collection=" home ").json()
    plain = upload(client, "router.txt", OTHER).json()
    assert [file["collection"] for file in (work, home, plain)] == ["work", "home", ""]
    assert work["id"] == upload(client, "key.txt", NOTE, collection="work").json()["id"]
    assert work["id"] != home["id"]
    for file in (work, home, plain):
        events(client, file["id"])
    assert client.get("/collections").json() == {
        "object": "list",
        "data": [
            {"name": "", "files": 1}, {"name": "home", "files": 1}, {"name": "work", "files": 1},
        ],
    }  # fmt: skip
    assert names(collection="work") == ["key.txt"]
    assert names(collection="") == ["router.txt"]

    def found(**limits: list[str]) -> set[str]:
        body = {"query": "Where is the spare key?", **limits}
        return {hit["document"] for hit in client.post("/search", json=body).json()["data"]}

    assert found(collections=["work"]) == {work["id"]}
    assert found(collections=["home", ""]) == {home["id"], plain["id"]}
    assert found(documents=[plain["id"]]) == {plain["id"]}
    assert found(documents=[plain["id"], work["id"]], collections=["work"]) == {work["id"]}
    assert found(documents=[], collections=["work"]) == set()
    for limits, param in (
        ({"documents": ["file-x"]}, "documents"),
        ({"collections": ["x"]}, "collections"),
    ):
        problem = error(client.post("/search", json={"query": "key", **limits}), 400)
        assert problem["param"] == param
    assert error(upload(client, "a.txt", NOTE, collection="x" * 65), 400)["param"] == "collection"


def test_a_new_version_replaces_the_old_one_once_it_can_be_found(client: httpx.Client) -> None:
    old = upload(client, "key.txt", NOTE).json()
    events(client, old["id"])
    broken = upload(client, "key.txt", b"\x89PNG" + bytes(50), replace="true").json()
    events(client, broken["id"])
    new = upload(client, "key.txt", OTHER, replace="true").json()
    seen = events(client, new["id"])
    assert seen[-1]["status"] == "processed"
    assert [file["id"] for file in client.get("/files").json()["data"]] == [new["id"]]
    hits = client.post("/search", json={"query": "Where is the spare key?"}).json()["data"]
    assert {hit["document"] for hit in hits} == {new["id"]}
    error(client.get(f"/files/{old['id']}"), 404)
    # The same bytes once more, beside another version: that one goes at once.
    events(client, upload(client, "key.txt", NOTE).json()["id"])
    assert len(client.get("/files").json()["data"]) == 2
    assert upload(client, "key.txt", OTHER, replace="True").json()["id"] == new["id"]
    assert [file["id"] for file in client.get("/files").json()["data"]] == [new["id"]]
    assert error(upload(client, "key.txt", OTHER, replace="perhaps"), 400)["param"] == "replace"


def test_the_text_that_citations_count_in(client: httpx.Client) -> None:
    file = upload(client, "rules.pdf", pdf("The lamp is lit.", "", NOTE.decode())).json()
    events(client, file["id"])
    hits = client.post("/search", json={"query": "Where is the spare key?"}).json()["data"]
    (hit,) = [hit for hit in hits if "spare" in hit["text"]]
    around = {"start": hit["start"], "end": hit["end"]}
    window = client.get(f"/files/{file['id']}/text", params=around).json()
    assert window == {
        "id": file["id"], "text": hit["text"], **around, "length": window["length"], "page": 3,
    }  # fmt: skip
    whole = client.get(f"/files/{file['id']}/text").json()
    assert (len(whole["text"]), whole["start"], whole["page"]) == (whole["length"], 0, 1)
    beyond = client.get(f"/files/{file['id']}/text", params={"start": 10**9}).json()
    assert (beyond["text"], beyond["start"]) == ("", whole["length"])
    error(client.get(f"/files/{file['id']}/text", params={"start": -1}), 400)


def test_bodies_that_are_not_an_upload(client: httpx.Client, tmp_path: Path) -> None:
    multipart = {"content-type": "multipart/form-data; boundary=edge"}
    part = b'--edge\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\ntext\r\n'
    file = part % (b"file", b'; filename="a.txt"')
    cases = [
        (client.post("/files"), "Send multipart/form-data"),
        (client.post("/files", json={"file": "text"}), "Send multipart/form-data"),
        (client.post("/files", data={"file": "text"}), "Send multipart/form-data"),
        (
            client.post("/files", content=b"x", headers={"content-type": "multipart/form-data"}),
            "Send multipart/form-data",
        ),
        (client.post("/files", content=b"garbage", headers=multipart), "not valid multipart"),
        (client.post("/files", content=b"", headers=multipart), "ends before"),
        (client.post("/files", content=file, headers=multipart), "ends before"),
        (
            client.post("/files", content=part % (b"file", b"") + b"--edge--", headers=multipart),
            "no part named 'file'",
        ),
        (
            client.post("/files", content=file + file + b"--edge--", headers=multipart),
            "more than one file",
        ),
        (
            client.post(
                "/files",
                content=part % (b"file", b'; filename=""') + b"--edge--",
                headers=multipart,
            ),
            "no name",
        ),
        (client.post("/files", files={"document": ("a.txt", NOTE)}), "no part named 'file'"),
        (
            upload(client, "a.txt", NOTE, purpose="world domination"),
            "purpose: Input should be 'user_data'",
        ),
        (upload(client, "a.txt", NOTE, purpose="x" * 5000), "too long"),
        (upload(client, "a.txt", NOTE, **{f"f{n}": "x" for n in range(20)}), "more than 16 parts"),
    ]
    for response, words in cases:
        assert words in error(response, 400)["message"]
    assert incoming(tmp_path) == []
    assert upload(client, "a.txt", NOTE).status_code == 200


def test_60_mb_are_refused_without_holding_them_in_memory(
    client: httpx.Client, tmp_path: Path
) -> None:
    def body() -> Iterator[bytes]:
        yield b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(60):
            yield b"all the words " * 71_429
        yield b"\r\n--edge--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=edge"}
    assert client.get("/files").json()["data"] == []  # the first request builds routes
    tracemalloc.start()
    streamed = client.post("/files", content=body(), headers=headers)  # no length told beforehand
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    problem = error(streamed, 413)
    assert (problem["code"], problem["param"]) == ("document_too_large", "file")
    assert "50 MB" in problem["message"]
    assert peak < 16 * 2**20
    told = upload(client, "a.txt", b"a" * 60_000_000)
    assert error(told, 413) == problem
    assert incoming(tmp_path) == []
    assert upload(client, "a.txt", NOTE).status_code == 200


def test_a_client_that_hangs_up_leaves_nothing(library: str, client: httpx.Client) -> None:
    class HangUpError(Exception):
        pass

    def body() -> Iterator[bytes]:
        yield b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        yield b"half of a file"
        raise HangUpError

    headers = HEADERS | {"content-type": "multipart/form-data; boundary=edge"}
    with pytest.raises(HangUpError):
        httpx.post(f"http://{library}/v1/files", content=body(), headers=headers)
    assert client.get("/files").json()["data"] == []
    # Uploads are independent, so the next one may overtake the clearing up; the start clears too.
    assert upload(client, "a.txt", NOTE).status_code == 200


def test_events_follow_a_long_ingestion_and_end_with_a_deletion(client: httpx.Client) -> None:
    file_id = upload(client, "long.txt", prose(400).encode()).json()["id"]
    with client.stream("GET", f"/files/{file_id}/events") as response:
        lines = filter(None, response.iter_lines())
        for line in lines:
            event = json.loads(line.removeprefix("data: "))
            if event["stage"] == "embedded" and event["done"]:
                break
        assert 0 < event["done"] < event["total"]
        assert client.delete(f"/files/{file_id}").status_code == 200
        assert not any('"processed"' in line for line in lines)


def test_what_does_not_exist(client: httpx.Client) -> None:
    for method, path in (
        ("GET", "/files/file-none"),
        ("GET", "/files/file-none/content"),
        ("GET", "/files/file-none/events"),
        ("GET", "/files/file-none/text"),
        ("POST", "/files/file-none/cancel"),
        ("POST", "/files/file-none/retry"),
        ("DELETE", "/files/file-none"),
    ):
        assert "There is no file" in error(client.request(method, path), 404)["message"]


def test_searches_that_make_no_sense(client: httpx.Client) -> None:
    for body, param in (
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": 5}, "query"),
        ({"query": "x" * 9000}, "query"),
        ({"query": "key", "top_k": 0}, "top_k"),
        ({"query": "key", "top_k": "many"}, "top_k"),
    ):
        assert error(client.post("/search", json=body), 400)["param"] == param
