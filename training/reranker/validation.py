"""Questions that the reranker is measured on and never trained on."""

from __future__ import annotations

import json
import random
from pathlib import Path

from dragon.retrieval.chunking import embedded_text, sentences
from harness import two_sided
from training.data.corpus import SQUAD_DEV
from training.reranker.data import Group


def _group(question: str, text: str, answers: list[str]) -> Group:
    pieces = sentences([text])
    return Group(
        question,
        [embedded_text(piece.text, piece.context) for piece in pieces],
        [any(answer.lower() in piece.text.lower() for answer in answers) for piece in pieces],
    )


def squad_groups(data: Path, count: int, seed: int = 1) -> list[Group]:
    """Questions of SQuAD 2.0 with their paragraphs, half of them unanswerable."""
    with (data / SQUAD_DEV).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(rows)
    return [
        _group(row["question"], row["context"], row["answers"] * (not row["unanswerable"]))
        for unanswerable in (False, True)
        for row in [row for row in rows if row["unanswerable"] == unanswerable][:count]
    ]


def two_sided_groups() -> list[Group]:
    """The questions of the two-sided benchmark about notes."""
    return [
        _group(question.text, question.note, list(question.gold))
        for question in two_sided.read(two_sided.QUESTIONS)
        if question.side == "private" and question.note is not None
    ]
