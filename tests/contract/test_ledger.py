"""The ledger against the wire: every frame of an answer is in it, and nothing else leaves.

And answers at once share frames of the link.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.storage.database import DATABASE
from dragon.inference.tokenizer import Tokenizer
from dragon.link import registry
from dragon.protocol.messages import Draft
from harness.models import SMALL_MODEL
from harness.services import Setup
from tests.contract.asking import Ask, ask_all, dragon, questions
from tests.contract.tapped import Tapped, message_of, tapped_pair

pytestmark = pytest.mark.services

NOTE = "The key safe code is 7731-M and it hangs left of the door of the holiday flat."
QUESTION = "What is the code of the key safe?"
CHAT = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def tapped(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    setup = Setup(tmp_path_factory.mktemp("ledger"), {"DRAGON_FIRST_TOKEN_DEADLINE": "60"})
    with tapped_pair(setup, corpus, flat=NOTE) as running:
        yield running


def asked(tapped: Tapped, ask: Ask, **more: Any) -> tuple[dict[str, Any], list[registry.Frame]]:
    reply, sent = tapped.post("/v1/chat/completions", ask.body(**more))
    return reply.json(), sent


def ledger_of(tapped: Tapped, reply: dict[str, Any]) -> dict[str, Any]:
    return tapped.ledger(reply["dragon"]["choices"][0])


def kind_of(frame: registry.Frame) -> str:
    return registry.name_of(message_of(frame))


def of_answers(frames: Sequence[registry.Frame]) -> list[registry.Frame]:
    return [frame for frame in frames if kind_of(frame) not in ("ping", "pong")]


def size(frame: str | bytes) -> int:
    return len(frame if isinstance(frame, bytes) else frame.encode())


def digest(frame: str | bytes) -> str:
    return hashlib.sha256(frame if isinstance(frame, bytes) else frame.encode()).hexdigest()


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("coupled", {}),
        ("coupled", {"logprobs": True, "top_logprobs": 5}),
        ("tokenwise", {}),
        ("speculative", {}),
        ("sequencewise", {}),
        ("context_text", {}),
    ],
)
def test_the_ledger_has_every_frame_that_left(
    tapped: Tapped, mode: str, more: dict[str, Any]
) -> None:
    reply, sent = asked(tapped, Ask(QUESTION, mode, temperature=0.0), **more)
    ledger = ledger_of(tapped, reply)
    wire = of_answers(sent)
    assert wire
    assert [(f["kind"], f["bytes"], f["digest"]) for f in ledger["frames"]] == [
        (kind_of(frame), size(frame), digest(frame)) for frame in wire
    ]
    assert ledger["bytes"] == sum(map(size, wire))
    assert sum(kind["frames"] for kind in ledger["kinds"].values()) == len(wire)
    assert ledger["private"] is False


def test_five_grams_are_those_a_reader_of_the_wire_finds(tapped: Tapped) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    reply, sent = asked(tapped, Ask(QUESTION, temperature=0.0))
    (choice,) = reply["dragon"]["choices"]
    text = reply["choices"][0]["message"]["content"]
    answer = tokenizer.encode(text)
    assert len(answer) + 1 == reply["usage"]["completion_tokens"]  # and the end token

    def grams(tokens: Sequence[int]) -> set[tuple[int, ...]]:
        return {tuple(tokens[i : i + 5]) for i in range(len(tokens) - 4)}

    own = [s["text"] for s in choice["sources"] if s["side"] == "private"]
    assert own
    wanted = set().union(*(grams(tokenizer.encode(text)) for text in own))
    # What somebody pieces together who knows the answer: of each draft, the committed text its
    # sender names, and the newest drafts behind that.
    drafts = [message_of(frame) for frame in sent if isinstance(frame, bytes)]
    newest: dict[int, int] = {}
    seen: set[tuple[int, ...]] = set()
    for draft in drafts:
        assert isinstance(draft, Draft)
        newest[draft.position] = draft.token
        behind = [newest[p] for p in range(draft.committed, draft.position + 1)]
        seen.add(tuple((answer[: draft.committed] + behind)[-5:]))
    ledger = tapped.ledger(choice)
    assert ledger["fivegrams"] == {
        "documents": len(wanted),
        "drafts": len(wanted & seen),
        "answer": len(wanted & grams(answer)),
    }
    assert ledger["fivegrams"]["answer"] > 0


def test_a_private_answer_sends_nothing(tapped: Tapped) -> None:
    reply, sent = asked(tapped, Ask(QUESTION, private=True, temperature=0.0))
    assert "7731-M" in reply["choices"][0]["message"]["content"]
    assert {kind_of(frame) for frame in sent} <= {"ping", "pong"}
    for frame in map(json.loads, sent):
        assert frame.keys() <= {"kind", "number", "load"}
        assert frame.get("load", 0.0) == 0.0  # a peer's alone to tell
    ledger = ledger_of(tapped, reply)
    assert ledger["private"] is True
    assert ledger["frames"] == []
    assert ledger["fivegrams"]["documents"] > 0
    assert ledger["fivegrams"]["drafts"] == ledger["fivegrams"]["answer"] == 0


@pytest.mark.parametrize(
    ("mode", "path", "body"),
    [
        ("coupled", "chat/completions", {"messages": CHAT, "stream": True, "n": 2}),
        ("sequencewise", "chat/completions", {"messages": CHAT, "top_logprobs": 3}),
        ("context_text", "chat/completions", {"messages": CHAT}),
        (
            "sequencewise",
            "completions",
            {"prompt": [QUESTION, "Nairobi"], "echo": True, "logprobs": 5},
        ),
        (
            "coupled",
            "completions",
            {"prompt": QUESTION, "echo": True, "logprobs": 5, "max_tokens": 0},
        ),
    ],
)
def test_nothing_of_a_private_request_is_sent(
    tapped: Tapped, mode: str, path: str, body: dict[str, Any]
) -> None:
    own = {"aggregation": mode, "private": True, "provenance": True}
    body = {"model": "dragon-7m", "max_tokens": 6, "dragon": own} | body
    if "top_logprobs" in body:
        body["logprobs"] = True
    _, sent = tapped.post(f"/v1/{path}", body)
    assert {kind_of(frame) for frame in sent} <= {"ping", "pong"}
    # The same, not private, is sent, so that this shows something.
    _, sent = tapped.post(f"/v1/{path}", body | {"dragon": {"aggregation": mode}})
    assert of_answers(sent)


def test_lists_and_export_agree_and_the_chain_holds(tapped: Tapped) -> None:
    ids = [
        asked(tapped, Ask(QUESTION, seed=seed, tokens=4))[0]["dragon"]["choices"][0]["ledger"]
        for seed in (1, 2)
    ]
    listed = tapped.get("/api/ledger?limit=2").json()["data"]
    assert [each["answer"] for each in listed] == ids[::-1]
    older = tapped.get(f"/api/ledger?before={ids[1]}&limit=1").json()["data"]
    assert [each["answer"] for each in older] == ids[:1]
    lines = [json.loads(line) for line in tapped.get("/api/ledger/export").text.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(a["hash"] == b["previous"] for a, b in itertools.pairwise(lines))
    frames = [line for line in lines if line["answer"] == ids[0] and line["bytes"]]
    assert len(frames) == listed[1]["frames"]
    assert sum(frame["bytes"] for frame in frames) == listed[1]["bytes"]
    verified = verify(tapped.device.data)
    assert (verified.returncode, lines[-1]["hash"] in verified.stdout) == (0, True)


def verify(data: Path) -> subprocess.CompletedProcess[str]:
    return dragon("ledger", "verify", DRAGON_DATA_DIR=str(data))


def test_a_chain_that_was_tampered_with_does_not_verify(tapped: Tapped, tmp_path: Path) -> None:
    asked(tapped, Ask(QUESTION, tokens=4))
    with (
        closing(sqlite3.connect(tapped.device.data / DATABASE)) as served,
        closing(sqlite3.connect(tmp_path / DATABASE)) as copy,
    ):
        served.backup(copy)
        assert verify(tmp_path).returncode == 0
        with copy:
            copy.execute("UPDATE ledger_entries SET bytes = bytes - 1 WHERE seq = 2")
    refused = verify(tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("dragon: ")


def test_answers_at_once_share_messages_and_each_is_the_text_it_is_alone(tapped: Tapped) -> None:
    asks = [Ask(question.text, seed=n) for n, question in enumerate(questions()[:6])]
    alone = [reply for ask in asks for reply in ask_all(tapped.device, [ask])]
    tapped.tap.bundles.clear()
    together = ask_all(tapped.device, asks)
    # Where a busy machine has kept one side from taking part, the text is another.
    pairs = [
        (one.text, other.text)
        for one, other in zip(alone, together, strict=True)
        if one.participation == other.participation
    ]
    assert len(pairs) > len(asks) / 2
    assert all(one == other for one, other in pairs)
    assert tapped.tap.bundles["device"] > 0
    assert tapped.tap.bundles["peer"] > 0
