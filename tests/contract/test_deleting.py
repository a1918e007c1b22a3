"""Documents and chats that are deleted while answers read them: afterwards no word is left."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api_keys import Documents, May, api_keys
from app.documents.erasure import GONE
from app.storage.data_dir import backup
from harness import services
from harness.services import Floor, Service, Setup
from tests.app.stores import traces
from tests.contract.asking import eventually, upload
from tests.contract.chatting import chat
from tests.contract.test_household import Person

pytestmark = pytest.mark.services

ROOMS = ("attic", "cellar", "garage")
TAKES_LONG = Floor(60)  # an answer is met in the middle
WAIT_S = 60.0


def code_of(room: str) -> str:
    return f"QUOKKA-{ROOMS.index(room)}71"


def note_on(room: str) -> str:
    return f"The door code of the {room} is {code_of(room)}, and Philomena has the spare key.\n"


def asking_for(room: str) -> str:
    return f"What is the door code of the {room}?"


@pytest.fixture(scope="module")
def device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    setup = Setup(tmp_path_factory.mktemp("deleting"), device_floor=TAKES_LONG)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
        services.wait_joint(device)
        yield device


@pytest.fixture
def client(device: Service) -> Iterator[httpx.Client]:
    with device.client(WAIT_S) as client:
        yield client


def streamed(client: httpx.Client, path: str, body: dict[str, Any], begun: threading.Event) -> str:
    """All lines of a stream; `begun` is set when text comes."""
    body = {"model": "dragon-7m", "temperature": 0, "stream": True, **body}
    lines = []
    with client.stream("POST", path, json=body) as reply:
        assert reply.status_code == 200, reply.read()
        for line in reply.iter_lines():
            lines.append(line)
            if "delta" in line and "QUOKKA" not in line:
                begun.set()
    return "\n".join(lines)


def paged(device: Service, room: str, begun: threading.Event) -> str:
    """How an answer on the page ends; `begun` is set when it is written."""
    with chat(device) as talk:
        talk.ask(asking_for(room), temperature=0.0, private=True)
        talk.tokens(2)
        begun.set()
        return str(talk.done()["finish_reason"])


def wait_for_no_traces(data: Path, *needles: bytes) -> None:
    """A reader, such as a backup, may keep the write-ahead log for a moment."""
    deadline = time.monotonic() + 10
    while (left := traces(data, *needles)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def test_what_is_deleted_and_redacted_while_answers_read_it_is_gone_once_they_end(
    device: Service, client: httpx.Client, tmp_path: Path
) -> None:
    ids = [upload(device, f"{room}.txt", note_on(room)) for room in ROOMS]
    alone = {"private": True}
    begun = [threading.Event() for _ in range(3 * len(ROOMS))]
    over = threading.Event()

    def back_up() -> int:
        count = 0
        while not over.is_set():
            backup(device.data, tmp_path / "backup.zip")
            count += 1
        return count

    with ThreadPoolExecutor(len(begun) + 1) as pool:
        asked = []
        for room, (chatted, stored, shown) in zip(
            ROOMS, zip(*[iter(begun)] * 3, strict=True), strict=True
        ):
            turns = [{"role": "user", "content": asking_for(room)}]
            whole = {"messages": turns, "dragon": alone}
            kept = {"input": asking_for(room), "dragon": alone}
            asked += [
                pool.submit(streamed, client, "/v1/chat/completions", whole, chatted),
                pool.submit(streamed, client, "/v1/responses", kept, stored),
                pool.submit(paged, device, room, shown),
            ]
        for each in begun:
            assert each.wait(WAIT_S)
        backups = pool.submit(back_up)
        gone = client.post("/api/documents/delete", json={"documents": ids, "redact": True})
        assert gone.json() == {"deleted": ids}
        said = [each.result(WAIT_S) for each in asked]
        over.set()
        assert backups.result(WAIT_S) > 0
    assert {*said[2::3]} <= {"cancelled", "stop"}  # an answer may be over when its turn comes
    for room, text in zip(ROOMS, said[::3], strict=True):  # to whoever had it asked before
        assert code_of(room) in "".join(
            choice["delta"].get("content") or ""
            for line in text.splitlines()
            if line.startswith("data: {")
            for choice in json.loads(line.removeprefix("data: "))["choices"]
        )
    client.get("/api/ledger").raise_for_status()  # writes what is still to be written
    wait_for_no_traces(device.data, b"QUOKKA", b"Philomena", *(each.encode() for each in ids))
    for room in ROOMS:
        body = {"model": "dragon-7m", "messages": [{"role": "user", "content": asking_for(room)}]}
        assert "QUOKKA" not in client.post("/v1/chat/completions", json=body).text


@pytest.mark.parametrize("how", ["shared", "in a folder"])
def test_what_others_delete_is_gone_from_what_an_answer_shows(
    device: Service, client: httpx.Client, tmp_path: Path, how: str
) -> None:
    name = f"anna {how}".replace(" ", "-")
    key = api_keys(device.data).add(name, may=May.ALL, documents=Documents.OWN)
    anna = Person(name, key, device, "QUOKKA")
    room = ROOMS[0]
    if how == "shared":
        document = anna.upload("attic.txt", note_on(room))
        anna.made("POST", f"/v1/files/{document}/share")
        removed = f"/v1/files/{document}"
    else:
        (tmp_path / "attic.txt").write_text(note_on(room))
        folder = client.post("/api/folders", json={"path": str(tmp_path)}).json()["id"]
        removed = f"/api/folders/{folder}"
        eventually(lambda: client.get(removed).json()["files"]["indexed"])
        eventually(lambda: client.get("/v1/files").json()["data"][0]["status"] == "processed")
    with chat(device) as talk:
        talk.ask(asking_for(room), temperature=0.0, private=True)
        talk.tokens(2)
        if how == "shared":
            anna.made("DELETE", removed)
        else:
            client.delete(removed).raise_for_status()
        assert talk.done()["finish_reason"] == "stop"
        began = talk.events[0]
    assert code_of(room) in talk.text  # what was read before it was deleted
    shown = client.get(f"/api/conversations/{began['conversation']['id']}").json()
    (source,) = shown["messages"][-1]["sources"]
    assert (source["title"], source["text"], source["deleted"]) == (GONE, "", True)
    assert "attic.txt" not in json.dumps(shown)
    body = {"model": "dragon-7m", "messages": [{"role": "user", "content": asking_for(room)}]}
    assert "QUOKKA" not in client.post("/v1/chat/completions", json=body).text


def test_a_chat_that_is_deleted_while_the_cloud_answers_leaves_no_word_in_the_ledger(
    device: Service, client: httpx.Client
) -> None:
    asked = "Is the WOMBAT at home in the capital of Kenya?"
    with chat(device) as talk:
        talk.ask(asked, temperature=1.0, max_tokens=60)
        talk.until(lambda event: event["type"] == "peer" and event["joint"])
        talk.tokens(2)
        deleted = talk.events[0]["conversation"]["id"]
        client.delete(f"/api/conversations/{deleted}").raise_for_status()
        ledger = talk.done()["ledger"]
    kept = client.get(f"/api/ledger/{ledger}").json()
    assert (kept["asked"], kept["given"]) == ("question", None)
    wait_for_no_traces(device.data, b"WOMBAT")


def test_a_response_that_is_deleted_while_the_cloud_writes_it_leaves_no_word(
    device: Service, client: httpx.Client
) -> None:
    begun = threading.Event()
    body = {"input": "Is the WOMBAT at home in the capital of Kenya?", "max_output_tokens": 60}
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(streamed, client, "/v1/responses", body | {"temperature": 1}, begun)
        assert begun.wait(WAIT_S)
        (kept, *_) = client.get("/api/conversations").json()["data"]
        response = kept["leaf"].replace("msg-", "resp_")
        assert client.delete(f"/v1/responses/{response}").json()["deleted"]
        assert "response.completed" in writing.result(WAIT_S)
    client.get("/api/ledger").raise_for_status()
    wait_for_no_traces(device.data, b"WOMBAT")
