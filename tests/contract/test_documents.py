"""Documents in answers: limited, cited, replaced, deleted and restored, through a real device.

Covers `cli.data`, with `tests/contract/test_ledger.py` and `tests/cli/test_main.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import services
from harness.services import KEY, Service, Setup
from tests.app.stores import traces
from tests.contract.asking import Ask, dragon, upload
from tests.office import odt, pptx
from tests.samples import prose
from tests.scans import fake_tesseract, picture, saved

pytestmark = pytest.mark.services

SAFE = "Holiday flat in Ravello.\nThe key safe code is 7731-M and it hangs left of the door.\n"
LODGE = "Lodge in Kvamskogen.\nThe key safe code is 9046-T and it hangs behind the woodpile.\n"
QUESTION = "What is the code of the key safe?"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A device without a peer."""
    scanned = "words = 'The alarm code of the boathouse is 4410-B.'.split(); confidence = 72"
    programs = fake_tesseract(tmp_path_factory.mktemp("tesseract"), scanned)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    setup = Setup(tmp_path_factory.mktemp("documents"), {"DRAGON_EXACT": "true", "PATH": path})
    with services.device(setup, services.free_port()) as running:
        yield running


@pytest.fixture
def data(device: Service) -> Path:
    return device.log.parent / "device"


def kept(data: Path, document: str) -> list[Path]:
    """Files of a document's KV, whose names begin with what is made of its id."""
    name = hashlib.sha256(document.encode()).hexdigest()[:24]
    return list((data / "kv").rglob(f"{name}*"))


def ask(device: Service, question: str = QUESTION, **dragon: Any) -> tuple[str, dict[str, Any]]:
    """An answer's text, and what the response says of it."""
    body = Ask(question, "local", temperature=0.0).body()
    body["dragon"] |= dragon
    with device.client() as client:
        reply = client.post("/v1/chat/completions", json=body)
    if reply.status_code != 200:
        return "", reply.json()["error"]
    return reply.json()["choices"][0]["message"]["content"], reply.json()["dragon"]["choices"][0]


def test_documents_are_cited_limited_and_gone_when_deleted(device: Service, data: Path) -> None:
    one = upload(device, "ravello.txt", SAFE)
    text, own = ask(device, documents=[one], top_k=1)
    assert "7731-M" in text
    other = upload(device, "lodge.txt", LODGE)
    (source,) = own["sources"]
    assert (source["id"], source["side"], own["nothing_relevant"]) == (one, "private", False)
    assert SAFE[source["start"] : source["end"]] == source["text"]
    assert "9046-T" in ask(device, documents=[other], top_k=1)[0]
    # Its id, too, is known to nothing any more, nor is what the model made of it.
    needles = (b"7731-M", b"Ravello", b"ravello", one.encode())  # not 7731: hashes may have it
    assert {path.split("/")[0] for path in traces(data, *needles)} >= {"files", "index"}
    assert kept(data, one)
    with device.client() as client:
        assert client.delete(f"/v1/files/{one}").status_code == 200
        found = client.post("/v1/search", json={"query": "7731-M Ravello", "top_k": 9}).json()
        client.post("/v1/files", files={"file": ("a.txt", b"Some text.")}, data={"collection": "b"})
    assert {hit["document"] for hit in found["data"]} == {other}
    text, own = ask(device)
    assert "7731" not in text
    assert {source["id"] for source in own["sources"]} == {other}
    assert traces(data, *needles) == []
    assert not kept(data, one)
    assert ask(device, documents=[one])[1]["param"] == "documents"
    assert ask(device, collections=["b"])[1]["sources"] == []


def test_a_stream_tells_its_sources(device: Service) -> None:
    upload(device, "lodge.txt", LODGE)
    body = Ask(QUESTION, "local", temperature=0.0).body(stream=True)
    url = f"{device.url}/v1/chat/completions"
    reply = httpx.post(url, headers=device.headers, json=body, timeout=60)
    *chunks, done = (line for line in reply.text.splitlines() if line)
    assert done == "data: [DONE]"
    told = [json.loads(chunk.removeprefix("data: ")).get("dragon") for chunk in chunks]
    (last,) = (each["choices"][0] for each in told if each and "choices" in each)
    expected = ask(device)[1]
    assert last["sources"] == expected["sources"] != []
    assert last["nothing_relevant"] is expected["nothing_relevant"] is False


def test_nothing_relevant_is_said(device: Service) -> None:
    upload(device, "lodge.txt", LODGE)
    _, own = ask(device, "Who won the football match in Lima?")
    assert (own["sources"], own["nothing_relevant"]) == ([], True)
    assert any(LODGE.splitlines()[1] in passage["text"] for passage in own["closest"])
    answered = ask(device, QUESTION)[1]
    assert answered["nothing_relevant"] is False
    (source,) = answered["sources"]
    assert not any(source["text"] in passage["text"] for passage in answered["closest"])
    assert ask(device, QUESTION, top_k=0)[1]["nothing_relevant"] is False
    assert ask(device, "Hello!")[1]["nothing_relevant"] is False


def test_what_is_not_read_yet_is_counted(device: Service) -> None:
    lodge = upload(device, "lodge.txt", LODGE)
    with device.client() as client:
        much_work = ("long.txt", prose(2_500))
        reply = client.post("/v1/files", files={"file": much_work}, data={"collection": "c"})
        _, own = ask(device)
        assert [source["id"] for source in own["sources"]] == [lodge]
        assert own["unread_documents"] == 1
        assert ask(device, documents=[lodge])[1]["unread_documents"] == 0
        assert ask(device, collections=["c"])[1]["unread_documents"] == 1
        assert client.delete(f"/v1/files/{reply.json()['id']}").status_code == 200
    assert ask(device)[1]["unread_documents"] == 0


def test_a_backup_made_while_serving_answers_the_same(
    device: Service, data: Path, tmp_path: Path
) -> None:
    upload(device, "lodge.txt", LODGE)
    before = ask(device)
    archive = str(tmp_path / "backup.zip")
    own = {"DRAGON_DATA_DIR": str(data), "DRAGON_API_KEY": KEY}
    made = dragon("backup", archive, **own)
    assert (made.returncode, "documents in" in made.stdout) == (0, True), made.stderr
    refused = dragon("restore", archive, **own)
    assert refused.returncode == 1
    assert refused.stderr.startswith("dragon: ")
    assert "--replace" in refused.stderr
    in_use = dragon("restore", "--replace", archive, **own)
    assert "Stop it first" in in_use.stderr
    setup = Setup(tmp_path / "again", {"DRAGON_EXACT": "true"})
    there = str(setup.data / "device")
    restored = dragon("restore", archive, DRAGON_DATA_DIR=there, DRAGON_API_KEY=KEY)
    assert restored.returncode == 0, restored.stderr
    with services.device(setup, services.free_port()) as other:
        text, told = ask(other)
    assert text == before[0]
    assert told["sources"] == before[1]["sources"]


def test_slides_texts_and_scans_are_asked_and_cited(device: Service) -> None:
    rows = [("Boat", "Berth"), ("Heron", "14")]
    slides = pptx(
        title="The regatta of Malcesine",
        items=["The regatta of Malcesine begins at nine.", "Lunch"],
        notes="Thank the harbour master of Malcesine, Ada Rizzo.",
        rows=rows,
    )
    letter = odt(
        heading="The sauna of Torbole",
        text="The sauna of Torbole is heated with birch.",
        note="Since 1911.",
        items=["wood", "water"],
        rows=rows,
    )
    rtf = rb"{\rtf1\ansi The ferry to Limone leaves at quarter past eight.\par}"
    asked = {
        "slides.pptx": (slides, "When does the regatta of Malcesine begin?", "nine", 1, None),
        "letter.odt": (letter, "What is the sauna of Torbole heated with?", "birch", None, None),
        "ferry.rtf": (rtf, "When does the ferry to Limone leave?", "quarter past", None, None),
        "scan.png": (
            saved(picture("."), "PNG"),
            "What is the alarm code of the boathouse?",
            "4410-B",
            None,
            72,
        ),
    }
    for name, (content, question, answer, page, confidence) in asked.items():
        document = upload(device, name, content)
        text, own = ask(device, question, documents=[document], top_k=1)
        assert answer in text
        (source,) = own["sources"]
        assert (source["title"], source["page"], source["confidence"]) == (name, page, confidence)
