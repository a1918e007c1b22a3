"""Do both sides matter? `python -m bench.two_sided`

Twenty questions whose answer stands only in an uploaded note and twenty only in the public corpus,
asked of both real services; an answer counts when it contains a gold string. Closed-book is the
same model without any document, over all forty.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench import report, services
from bench.services import ROOT, Service, Setup

QUESTIONS = ROOT / "bench" / "two_sided.jsonl"
_TOKENS = 64


@dataclass(frozen=True)
class Question:
    """What is asked, which strings count as right, and the note that says it, if one does."""

    side: str
    text: str
    gold: tuple[str, ...]
    note: str | None

    def answered_by(self, text: str) -> bool:
        """Whether a gold string stands in the text, in any case."""
        return any(gold.lower() in text.lower() for gold in self.gold)


def read(path: Path) -> list[Question]:
    """The questions of a JSONL file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Question(r["side"], r["question"], tuple(r["gold"]), r.get("note")) for r in rows]


def upload_notes(device: Service, questions: Sequence[Question]) -> None:
    """Upload every note, and wait until all can be found."""
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=60) as client:
        ids = []
        for number, question in enumerate(questions):
            if question.note is not None:
                file = (f"note-{number}.md", question.note.encode())
                reply = client.post("/v1/files", files={"file": file}).raise_for_status()
                ids.append(reply.json()["id"])
        for document in ids:
            while (file := client.get(f"/v1/files/{document}").json())["status"] != "processed":
                if file["status"] == "error":
                    raise RuntimeError(f"a note was not taken: {file}")
                time.sleep(0.05)


def ask(client: httpx.Client, question: Question, **dragon: Any) -> str:
    """The greedy answer to a question."""
    body = {
        "model": client.get("/v1/models").json()["data"][0]["id"],
        "messages": [{"role": "user", "content": question.text}],
        "temperature": 0,
        "seed": 1,
        "max_tokens": _TOKENS,
        "dragon": dragon,
    }
    reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    text: str = reply["choices"][0]["message"]["content"]
    return text


def share(client: httpx.Client, questions: Sequence[Question], label: str, **dragon: Any) -> float:
    """The share of questions answered rightly; prints every answer."""
    right = 0
    for question in questions:
        text = ask(client, question, **dragon)
        right += question.answered_by(text)
        mark = "+" if question.answered_by(text) else "-"
        print(f"{label:>20} {mark} {question.text} -> {text!r} ({question.gold[0]})", flush=True)
    return round(right / len(questions), 4)


def main() -> None:
    """Run the four measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a directory or hub name; default: the embedded one")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    options = parser.parse_args()
    questions = read(options.questions)
    private = [q for q in questions if q.side == "private"]
    public = [q for q in questions if q.side == "public"]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        env = {"DRAGON_MODEL": options.model} if options.model else {}
        setup = Setup(data, env)
        corpus = services.demo_corpus(data)
        with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
            upload_notes(device, questions)
            services.wait_joint(device)
            with httpx.Client(base_url=device.url, headers=device.headers, timeout=120) as client:
                result = {
                    "private": share(client, private, "private"),
                    "public": share(client, public, "public"),
                    "public_without_peer": share(
                        client, public, "public without peer", private=True
                    ),
                    "closed_book": share(client, questions, "closed book", private=True, top_k=0),
                }
    report.section("two_sided", [result])
    print(json.dumps({**result, "rows": [result]}))


if __name__ == "__main__":
    main()
