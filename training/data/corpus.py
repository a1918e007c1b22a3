"""Readers for the raw text the model is trained on."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BOOKS = "books.txt.xz"
WIKITEXT = "wikitext-2/train.txt.xz"
GROUNDED = "grounded_qa_train.jsonl"
SQUAD_DEV = "squad2_dev_open.jsonl"

_ABBREVIATIONS = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Sr|Jr|Prof|Rev|Hon|Col|Gen|Lt|Capt|Sgt|No|vs|etc|Inc|Ltd|Co|Mt|Fig"
    r"|approx|e\.g|i\.e|a\.m|p\.m)|(?:^|\s)[A-Z])\.$"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])")


@dataclass(frozen=True)
class GroundedQuestion:
    """A question, the passage that answers it, and the answer span in that passage."""

    context: str
    question: str
    answer: str


def split_sentences(text: str) -> list[str]:
    """Split a paragraph into sentences, keeping common abbreviations and initials together."""
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        piece = text[start : match.end()].strip()
        if _ABBREVIATIONS.search(piece):
            continue
        if piece:
            sentences.append(piece)
        start = match.end()
    tail = text[start:].strip()
    if tail:
        sentences.append(tail)
    return sentences


def detokenize_wikitext(line: str) -> str:
    """Undo the spacing of WikiText's tokenised form."""
    text = line.strip()
    text = re.sub(r" @([-,.])@ ", r"\1", text)
    text = re.sub(r" ([,.;:!?%)\]])", r"\1", text)
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    text = re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    text = re.sub(r"(\w) ' (?=s\b)", r"\1'", text)
    text = re.sub(r'" ([^"]*?) "', r'"\1"', text)
    text = re.sub(r"(\w) – (?=\d)", r"\1–", text)
    text = text.replace(" / ", "/")
    return re.sub(r"  +", " ", text)


def wikitext_paragraphs(data: Path) -> Iterator[str]:
    """Paragraphs of WikiText-2 (train), without headings and without unknown words."""
    with lzma.open(data / WIKITEXT, "rt", encoding="utf-8") as lines:
        for line in lines:
            if len(line) < 80 or line.lstrip().startswith("="):
                continue
            kept = [s for s in split_sentences(detokenize_wikitext(line)) if "<unk>" not in s]
            if kept:
                yield " ".join(kept)


def book_paragraphs(data: Path, limit_bytes: int = 60_000_000) -> Iterator[str]:
    """Paragraphs of the books, every n-th book so that about ``limit_bytes`` are read."""
    raw = lzma.decompress((data / BOOKS).read_bytes()).decode("utf-8")
    books = raw.split("\f")
    step = max(1, round(len(raw) / limit_bytes))
    for book in books[::step]:
        for block in re.split(r"\n\s*\n", book):
            text = " ".join(block.split()).replace("_", "")
            if len(text) > 40:
                yield text


def grounded_questions(data: Path, name: str = GROUNDED) -> list[GroundedQuestion]:
    """Human-written questions with their passages."""
    rows: list[GroundedQuestion] = []
    with (data / name).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row.get("unanswerable"):
                continue
            answers = row["answers"] if "answers" in row else [row["answer"]]
            if not answers:
                continue
            rows.append(GroundedQuestion(row["context"], row["question"].strip(), answers[0]))
    return rows
