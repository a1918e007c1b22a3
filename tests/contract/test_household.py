"""Anna and Ben share a device: whatever Ben tries with his key, he learns nothing of hers."""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from mcp_types import Implementation
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from app.api.page.socket import INCOMING
from app.api_keys import Documents, May, api_keys
from app.main import create_app
from app.settings import Settings
from harness.services import KEY, Service
from tests.contract.asking import eventually, upload
from tests.contract.assistant import over_http
from tests.contract.conftest import Pair
from tests.contract.intruder import QUESTION, Maker, attempts

pytestmark = pytest.mark.services

UNDESCRIBED = {
    "/", "/sign-in", "/api/sign-out", "/api/status", "/service-worker.js", "/ws/chat", "/mcp",
    "/manifest.webmanifest",
    "/static", "/openapi.json", "/v1/models/{model:path}",
}  # fmt: skip

KINDS = ("document", "store", "response", "conversation", "question", "folder", "ledger")


@dataclass
class Person:
    """Somebody with a key, and everything of his, each with his word in it."""

    name: str
    key: str
    device: Service
    word: str
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> list[str]:
        """An id of every kind: tables and batches are files, and answers messages."""
        return [self.ids[name] for name in KINDS]

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        with httpx.Client(
            base_url=self.device.url, headers=self.headers, timeout=60, verify=False
        ) as client:
            return client.request(method, path, **more)

    def made(self, method: str, path: str, **more: Any) -> Any:
        reply = self.send(method, path, **more)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def upload(self, name: str, content: str, **fields: str) -> str:
        return upload(self.device, name, content, self.headers, **fields)

    def ask(self, question: str = QUESTION, **more: Any) -> Any:
        asked = {"model": "dragon-7m", "messages": [{"role": "user", "content": question}]}
        body = {**asked, "temperature": 0, "dragon": {}, **more}
        return self.made("POST", "/v1/chat/completions", json=body)

    @contextmanager
    def page(self) -> Iterator[Any]:
        url = f"ws://127.0.0.1:{self.device.port}/ws/chat"
        with connect(url, additional_headers=self.headers, compression=None) as socket:
            yield socket

    def say(self, text: str) -> str:
        """Ask in a chat that is kept; its id."""
        with self.page() as socket:
            socket.send(json.dumps({"type": "say", "id": "a", "text": text}))
            for event in map(json.loads, socket):
                assert event["type"] != "error", event
                if event["type"] == "began":
                    self.ids["conversation"] = event["conversation"]["id"]
                    self.ids["question"] = event["question"]["id"]
                    self.ids["answer"] = event["answer"]["id"]
                if event["type"] == "done":
                    self.ids["ledger"] = event["ledger"]
                    break
        return self.ids["conversation"]


def mcp(person: Person) -> AbstractAsyncContextManager[Client]:
    about = Implementation(name=f"{person.word} assistant", version="1")
    return over_http(person.device.url, person.headers, about=about)


def settle(person: Person, folder: Path) -> None:
    """Have a person use all that there is; every text has the word."""
    word, ids = person.word, person.ids
    code = f"The code of the safe is {word}-4471."
    ids["document"] = person.upload(f"{word}.txt", f"{code}\n", collection=f"{word} papers")
    ids["table"] = person.upload(f"{word}.csv", f"thing,place\n{word},cellar\nlamp,{word}\n")
    ids["batch"] = person.made(
        "POST", "/v1/files", files={"file": (f"{word}.jsonl", b"{}")}, data={"purpose": "batch"}
    )["id"]
    named = {"name": f"{word} shelf", "file_ids": [ids["table"]]}
    ids["store"] = person.made("POST", "/v1/vector_stores", json=named)["id"]
    instruction = {"name": f"{word} plans", "instruction": f"Say {word}."}
    person.made("PUT", "/api/projects", json=instruction)
    kept = {"model": "dragon-7m", "input": f"{QUESTION} I am {word}.", "temperature": 0}
    ids["response"] = person.made("POST", "/v1/responses", json=kept)["id"]
    person.say(f"{QUESTION} I am {word}.")
    folder.mkdir()
    (folder / f"{word}.md").write_text(f"# {word}\n\nThe spare code is {word}-0815.\n")
    (folder / f"{word}.zip").write_bytes(b"PK")
    owner = httpx.post(
        f"{person.device.url}/api/folders",
        headers=person.device.headers,
        json={"path": str(folder), "key": person.name},
        timeout=60,
    )
    ids["folder"] = owner.json()["id"]
    watched = f"/api/folders/{ids['folder']}"
    eventually(lambda: person.made("GET", watched)["files"]["indexed"])


@pytest.fixture(scope="module")
def household(
    exact_services: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Person]]:
    device = exact_services.device
    named = api_keys(device.data)
    people = {
        name: Person(name, named.add(name, may=May.ALL, documents=Documents.OWN), device, word)
        for name, word in (("anna", "QUOKKA"), ("ben", "WOMBAT"))
    }
    for name, person in people.items():
        settle(person, tmp_path_factory.mktemp("folders") / f"{person.word} notes")
    yield people
    for name in people:
        named.revoke(name)


@pytest.fixture
def anna(household: dict[str, Person]) -> Person:
    return household["anna"]


@pytest.fixture
def ben(household: dict[str, Person]) -> Person:
    return household["ben"]


def told(reply: httpx.Response) -> str:
    return f"{reply.headers} {reply.text}"


def everything(person: Person) -> dict[str, str]:
    """What a person reads of all that may be read without saying what, and of each thing."""
    paths = {
        path
        for path, operations in described(person)["paths"].items()
        if "get" in operations and "{" not in path
    } - {"/metrics", "/ready"}  # which are nobody's, and change
    ids = person.ids
    paths |= {
        f"/v1/files/{ids['document']}", f"/v1/files/{ids['document']}/content",
        f"/v1/files/{ids['document']}/text", f"/v1/vector_stores/{ids['store']}",
        f"/v1/responses/{ids['response']}", f"/api/conversations/{ids['conversation']}",
        f"/api/conversations/{ids['conversation']}/export?as=markdown",
        f"/api/folders/{ids['folder']}/files", f"/api/ledger/{ids['ledger']}",
    }  # fmt: skip
    return {path: person.send("GET", path).text for path in sorted(paths)}


def described(person: Person) -> Any:
    return person.made("GET", "/openapi.json")


def test_every_route_is_described_or_known_here(tmp_path: Path) -> None:
    app = create_app(Settings(_env_file=None, data_dir=tmp_path, api_key="k" * 22))
    inside = (getattr(each, "original_router", None) for each in app.routes)
    every = [*app.routes, *(route for router in inside if router for route in router.routes)]
    routes = {route.path for route in every if hasattr(route, "path")}
    assert routes - set(app.openapi()["paths"]) == UNDESCRIBED


@pytest.mark.timeout(1800)  # thousands of requests, one after the other
def test_no_request_with_the_others_ids_tells_anything(anna: Person, ben: Person) -> None:
    before = everything(anna)
    assert all(anna.word in before[path] for path in before if anna.ids["document"] in path)
    statuses: dict[str, set[int]] = defaultdict(set)
    with httpx.Client(base_url=ben.device.url, headers=ben.headers, timeout=60) as client:
        for each in attempts(described(ben), anna.kinds):
            reply = client.request(each.method, each.path, params=each.query, json=each.body)
            assert anna.word not in told(reply), (each, told(reply))
            if each.named:
                assert reply.status_code == 404, (each, reply.text)
            statuses[f"{each.method} {each.route}"].add(reply.status_code)
    # Each was really tried, and not refused for its form alone; what is no JSON is not made here.
    malformed = {route for route, seen in statuses.items() if seen <= {400, 405, 415, 422}}
    assert malformed == {"POST /v1/files"}, malformed
    assert everything(anna) == before


def test_no_frame_of_the_pages_with_the_others_ids_tells_anything(
    anna: Person, ben: Person
) -> None:
    before = everything(anna)
    description = INCOMING.json_schema(ref_template="#/$defs/{model}")
    with ben.page() as socket:
        for kind in description["oneOf"]:
            for identity in anna.kinds:
                for frame in Maker(description, "").all(kind, identity):
                    socket.send(json.dumps(frame))
        # Each is answered, or harmless; what has begun by now ends.
        ended = time.monotonic() + 5
        while time.monotonic() < ended:
            with suppress(TimeoutError):
                assert anna.word not in str(socket.recv(timeout=0.2))
    assert everything(anna) == before


async def test_no_assistant_with_the_others_ids_is_told_anything(anna: Person, ben: Person) -> None:
    async with mcp(ben) as client:
        tools = (await client.list_tools()).tools
        for tool in tools:
            maker = Maker(tool.input_schema, "")
            for identity in anna.kinds:
                for arguments in maker.all(tool.input_schema, identity):
                    result = await client.call_tool(tool.name, arguments)
                    assert anna.word not in result.model_dump_json()
        assert anna.word not in (await client.list_resources()).model_dump_json()
        for identity in anna.kinds:
            with pytest.raises(MCPError) as refusal:
                await client.read_resource(f"dragon://documents/{identity}")
            assert anna.word not in str(refusal.value)
    async with mcp(anna) as client:  # and the one whose they are is told
        found = await client.call_tool("read_passage", {"document": anna.ids["document"]})
        assert anna.word in found.model_dump_json()
        assert anna.word in (await client.list_resources()).model_dump_json()


def test_an_assistants_session_is_good_for_its_key_alone(anna: Person, ben: Person) -> None:
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        },
    }  # fmt: skip
    accepts = {"Accept": "application/json, text/event-stream"}

    def session(person: Person) -> dict[str, str]:
        opened = person.send("POST", "/mcp", json=begin, headers=accepts)
        return accepts | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}

    def listed(person: Person, session: dict[str, str]) -> httpx.Response:
        listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
        return person.send("POST", "/mcp", json=listing, headers=session)

    hers, his = session(anna), session(ben)
    taken = listed(ben, hers)
    assert (taken.status_code, anna.word in told(taken)) == (404, False)
    assert anna.word in listed(anna, hers).text
    own = listed(ben, his).text
    assert ben.word in own
    assert anna.word not in own


def test_the_devices_own_key_sees_neither(anna: Person, ben: Person, exact: Pair) -> None:
    own = Person("device", KEY, exact.device, "")
    for path in (*everything(anna), *everything(ben)):
        reply = own.send("GET", path)
        assert anna.word not in told(reply)
        assert ben.word not in told(reply)
    assert QUESTION not in own.send("GET", "/api/conversations").text


def test_a_shared_document_answers_both_until_it_is_not(anna: Person, ben: Person) -> None:
    note = anna.upload("trip.txt", "The ferry to Hydra leaves from gate E8 at noon.\n")
    question = "Which gate does the ferry to Hydra leave from?"

    def read(person: Person) -> bool:
        found = person.ask(question, dragon={"private": True})["choices"][0]
        return "E8" in found["message"]["content"]

    assert (read(anna), read(ben)) == (True, False)
    assert ben.send("POST", f"/v1/files/{note}/share").status_code == 404
    assert anna.made("POST", f"/v1/files/{note}/share")["shared"] is True
    assert (read(anna), read(ben)) == (True, True)
    shown = ben.made("GET", f"/v1/files/{note}")
    assert (shown["shared"], shown["shared_by"]) == (True, "anna")
    stored = ben.made("POST", "/v1/responses", json={"model": "dragon-7m", "input": question})
    for method, path in (
        ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/unshare")
    ):  # fmt: skip
        refused = ben.send(method, f"/v1/files/{note}{path}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_yours")
    assert (read(anna), read(ben)) == (True, True)
    anna.made("POST", f"/v1/files/{note}/unshare")
    assert (read(anna), read(ben)) == (True, False)
    assert ben.send("GET", f"/v1/files/{note}").status_code == 404
    # The answer stays, and what it shows of the passage goes.
    kept = ben.made("GET", f"/v1/responses/{stored['id']}")
    assert "E8" in json.dumps(kept["output"])
    assert note not in json.dumps(kept)
    anna.made("POST", f"/v1/files/{note}/share")
    anna.made("DELETE", f"/v1/files/{note}")
    assert (read(anna), read(ben)) == (False, False)


def test_the_same_file_is_a_document_of_each(anna: Person, ben: Person) -> None:
    content = "The bin men come on Thursdays.\n"
    first, second = (each.upload("bins.txt", content) for each in (anna, ben))
    assert first != second
    ben.made("DELETE", f"/v1/files/{second}")
    assert anna.made("GET", f"/v1/files/{first}")["status"] == "processed"


def test_redacting_reaches_ones_own_chats_alone(anna: Person, ben: Person) -> None:
    """Else a guess would tell by how many messages it changes."""
    said = "Who planted lavender by the pond in memory of Tilda?"
    place = f"/api/conversations/{anna.say(said)}"
    before = anna.made("GET", place)
    guess = ben.upload("guess.txt", f"{said}\n")
    counted = ben.made("POST", "/api/documents/quoted", json={"documents": [guess]})
    assert counted == {"messages": 0, "conversations": 0}
    ben.made("POST", "/api/documents/delete", json={"documents": [guess], "redact": True})
    assert said in json.dumps(before)
    assert anna.made("GET", place) == before


def test_a_revoked_key_is_out_in_mid_answer(exact: Pair, tmp_path: Path) -> None:
    named = api_keys(exact.device.data)
    key = named.add("carl", may=May.ALL, documents=Documents.OWN)
    carl = Person("carl", key, exact.device, "")
    with carl.page() as socket, httpx.Client(timeout=30) as client:
        asked = {"model": "dragon-7m", "prompt": "The", "stream": True, "max_tokens": 1500}
        url = f"{exact.device.url}/v1/completions"
        with client.stream("POST", url, json=asked, headers=carl.headers) as reply:
            lines = reply.iter_lines()
            next(lines)
            named.revoke("carl")
            with pytest.raises(httpx.RemoteProtocolError):  # no end that looks like one
                deque(lines, maxlen=0)
        with pytest.raises(ConnectionClosedError, match="1008"):
            deque(socket, maxlen=0)
    assert carl.send("GET", "/v1/models").status_code == 401
