"""The written texts with their questions, and how they are split for training and measuring."""

from __future__ import annotations

import hashlib
import json
import lzma
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragon.retrieval.chunking import ChunkSentence, sentences

FOLDER = Path(__file__).parent / "data"
KEPT_APART = "documents.jsonl"  # long documents that are measured on, and never trained on
_HELD_OUT = 10
_LENGTHS = 250, 1000  # characters of a stranger
_BOOKS = 25_000_000  # characters that are read of them


@dataclass(frozen=True)
class Text:
    """A note, a paragraph or a document: what it answers and with which sentence, and what not."""

    name: str
    text: str
    asked: tuple[tuple[str, str], ...] = ()
    unasked: tuple[str, ...] = ()

    def lines(self) -> list[ChunkSentence]:
        """Its sentences and lines, as the product cuts them."""
        return sentences([self.text])


def held_out(text: str) -> bool:
    """Whether a text with its questions is held out from training: one in ten is."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % _HELD_OUT == 0


def same(piece: str, answer: str) -> bool:
    """Whether a line is the sentence of the answer, a part of it, or contains it."""
    return answer in piece or (len(piece) > 12 and piece in answer)


def read_texts() -> list[Text]:
    """The texts to train on, file by file. Raises ValueError if an answer is not in its text."""
    return [
        text for path in sorted((FOLDER / "questions").glob("*.jsonl")) if path.name != KEPT_APART
        for text in read_file(path)
    ]  # fmt: skip


def read_file(path: Path) -> Iterator[Text]:
    """The texts of one file. Raises ValueError as `read_texts` does."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        asked = tuple((question, answer) for question, answer in row["asked"])
        if any(answer not in row["text"] for _, answer in asked):
            raise ValueError(f"{path.name}:{number + 1}: an answer is not in the text.")
        yield Text(f"{path.stem}:{number}", row["text"], asked, tuple(row["unasked"]))


def grounded(path: Path) -> Iterator[Text]:
    """People's questions with the passages that answer them (`context`, `question`, `answer`)."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        own = [each.text for each in sentences([row["context"]]) if row["answer"] in each.text]
        if len(own) == 1:
            yield Text(f"grounded:{number}", row["context"], ((row["question"], own[0]),))


def strangers(data: Path, *, articles: int = 3000, books: int = 800) -> list[Text]:
    """Paragraphs of WikiText and of books, which answer none of the questions."""
    rng = random.Random(5)
    with lzma.open(data / "wikitext-2/train.txt.xz", "rt", encoding="utf-8") as file:
        wiki = [detokenized(part) for line in file if " = " not in line for part in _known(line)]
    with lzma.open(data / "books.txt.xz", "rt", encoding="utf-8") as file:
        prose = [" ".join(part.split()) for part in file.read(_BOOKS).split("\n\n")]
    least, most = _LENGTHS
    wiki, prose = ([each for each in own if least < len(each) < most] for own in (wiki, prose))
    drawn = [*rng.sample(wiki, articles), *rng.sample(prose, books)]
    return [Text(f"stranger:{number}", text) for number, text in enumerate(drawn)]


def detokenized(line: str) -> str:
    """A line of WikiText without the spaces of its tokenised form."""
    text = re.sub(r" @([-,.])@ ", r"\1", line.strip())
    text = re.sub(r" ([,.;:!?%)\]])", r"\1", text)
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    text = re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    return re.sub(r'" ([^"]*?) "', r'"\1"', text)


def _known(line: str) -> list[str]:
    """The longest runs of sentences of a line of WikiText without an unknown word."""
    runs, run = list[str](), ""
    for sentence in re.split(r"(?<= \. )", line.strip() + " "):
        if "<unk>" in sentence:
            runs.append(run)
            run = ""
        else:
            run += sentence
    return [*runs, run]
