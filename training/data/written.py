"""Texts written for training, with questions that they answer and questions that they nearly do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "questions"


@dataclass(frozen=True)
class Written:
    """A note or a paragraph, what it answers and with which sentence, and what it does not."""

    text: str
    asked: list[tuple[str, str]]
    unasked: list[str]


def read_written(folder: Path = FOLDER) -> list[Written]:
    """All texts of the folder's JSON lines, file by file.

    Raises:
        ValueError: an answer is not in its text.
    """
    texts: list[Written] = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            row = json.loads(line)
            asked = [(question, answer) for question, answer in row["asked"]]
            if any(answer not in row["text"] for _, answer in asked):
                raise ValueError(f"{path.name}:{number}: an answer is not in the text.")
            texts.append(Written(row["text"], asked, row["unasked"]))
    return texts
