"""The questions of the two-sided benchmark, and their notes on a running device.

An answer is only in a private note, only in the public corpus, or needs both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.services import Service

QUESTIONS = Path(__file__).with_name("two_sided.jsonl")


@dataclass(frozen=True)
class Question:
    """The question, the strings that count as right, and the note with the answer, if any.

    `side` is private, public or both; `by` is hand or template.
    """

    side: str
    text: str
    gold: tuple[str, ...]
    note: str | None
    by: str

    def answered_by(self, text: str) -> bool:
        """Whether the text contains a gold string, ignoring case."""
        return any(gold.lower() in text.lower() for gold in self.gold)


def read(path: Path, count: int | None = None) -> list[Question]:
    """The questions of a JSONL file, at most the first `count` of each side."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    questions = [
        Question(r["side"], r["question"], tuple(r["gold"]), r.get("note"), r["by"]) for r in rows
    ]
    sides = dict.fromkeys(question.side for question in questions)
    return [q for side in sides for q in [q for q in questions if q.side == side][:count]]


def spread(questions: Sequence[Question], count: int) -> list[Question]:
    """At most `count` questions of each side, evenly from beginning to end."""
    chosen: list[Question] = []
    for side in dict.fromkeys(question.side for question in questions):
        own = [question for question in questions if question.side == side]
        chosen += own[:: max(1, -(-len(own) // count))]
    return chosen


def notes_of(questions: Sequence[Question]) -> list[str]:
    """Every note once."""
    return list(dict.fromkeys(q.note for q in questions if q.note is not None))


def upload(device: Service, texts: Sequence[str]) -> None:
    """Upload texts as files, and wait until all can be found."""
    upload_files(device, {f"note-{n}.md": text.encode() for n, text in enumerate(texts)})


def upload_files(device: Service, files: Mapping[str, bytes]) -> None:
    """Upload files by name, and wait until all can be found."""
    with device.client() as client:
        ids = []
        for file in files.items():
            reply = client.post("/v1/files", files={"file": file}).raise_for_status()
            ids.append(reply.json()["id"])
        for document in ids:
            while (file := client.get(f"/v1/files/{document}").json())["status"] != "processed":
                if file["status"] == "error":
                    raise RuntimeError(f"a note was not taken: {file}")
                time.sleep(0.05)


def upload_notes(device: Service, questions: Sequence[Question]) -> None:
    """Upload every note once, and wait until all can be found."""
    upload(device, notes_of(questions))
