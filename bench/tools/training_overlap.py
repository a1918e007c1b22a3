"""Report word 8-grams that training text shares with the benchmark and the demo corpus.

A question whose wording the model has trained on measures memory, not retrieval. Run
`python -m bench.training_overlap --text FILE...` over all a model was trained on: plain text,
.jsonl, of which every string value is read, or either of them as .xz.
The last line of output is one JSON object; the exit code is 1 if anything is shared.
"""

import argparse
import csv
import json
import lzma
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from harness.services import DEMO_CORPUS
from harness.two_sided import QUESTIONS

GRAM_WORDS = 8
CHUNK_CHARS = 1 << 20
MAX_EXAMPLES = 20

WORD = re.compile(r"[^\W_]+")

Gram = tuple[str, ...]


def words_of(text: str) -> list[str]:
    """Lower-cased words, punctuation dropped."""
    return WORD.findall(text.lower())


def grams_of(words: list[str]) -> Iterator[Gram]:
    """Every run of GRAM_WORDS consecutive words."""
    return zip(*(words[start:] for start in range(GRAM_WORDS)), strict=False)


def string_values(value: object) -> Iterator[str]:
    """Every string in a decoded JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from string_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from string_values(item)


def open_text(path: Path) -> TextIO:
    """Open a UTF-8 text file, through xz where its name says so."""
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def chunks(file: TextIO) -> Iterator[str]:
    """The text in pieces of bounded size, none of which ends inside a word."""
    tail = ""
    while chunk := file.read(CHUNK_CHARS):
        text = tail + chunk
        cut = max(text.rfind(" "), text.rfind("\n")) + 1
        yield text[:cut]
        tail = text[cut:]
    yield tail


def training_grams(path: Path) -> Iterator[Iterator[Gram]]:
    """The grams of a training file, a batch at a time, so that memory stays bounded."""
    name = path.name.removesuffix(".xz")
    with open_text(path) as file:
        if name.endswith(".jsonl"):
            for line in file:
                if line.strip():
                    for text in string_values(json.loads(line)):
                        yield grams_of(words_of(text))
            return
        carried: list[str] = []
        for chunk in chunks(file):
            words = carried + words_of(chunk)
            yield grams_of(words)
            carried = words[-(GRAM_WORDS - 1) :]


def measured_texts(questions: Path, corpus: Path) -> Iterator[tuple[str, str]]:
    """Label and text of each question, private note and corpus passage."""
    with questions.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            record: dict[str, object] = json.loads(line)
            for field in ("question", "note"):
                text = record.get(field)
                if isinstance(text, str):
                    yield f"{field} {number}", text
    with corpus.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield f"passage {row['id']}", row["text"]


def measured_grams(questions: Path, corpus: Path) -> dict[Gram, str]:
    """Each gram of the measured texts, with the label of the first text that holds it."""
    where: dict[Gram, str] = {}
    for label, text in measured_texts(questions, corpus):
        for gram in grams_of(words_of(text)):
            where.setdefault(gram, label)
    return where


def shared_grams(batches: Iterable[Iterator[Gram]], wanted: set[Gram]) -> set[Gram]:
    """The wanted grams that occur in the training text."""
    found: set[Gram] = set()
    for batch in batches:
        found |= wanted.intersection(batch)
    return found


def main() -> int:
    """Compare, print a line per file and the JSON object, and return the exit code."""
    parser = argparse.ArgumentParser(prog="bench.tools.training_overlap", description=__doc__)
    parser.add_argument("--text", nargs="+", type=Path, required=True, metavar="FILE")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--corpus", type=Path, default=DEMO_CORPUS)
    arguments = parser.parse_args()

    where = measured_grams(arguments.questions, arguments.corpus)
    wanted = set(where)
    print(f"{len(wanted)} 8-grams measured")
    seen_in: dict[Gram, str] = {}
    for path in arguments.text:
        found = shared_grams(training_grams(path), wanted)
        print(f"{path.name}: {len(found)} shared", flush=True)
        for gram in found:
            seen_in.setdefault(gram, path.name)
    examples = [
        {"words": " ".join(gram), "in": where[gram], "file": seen_in[gram]}
        for gram in sorted(seen_in)[:MAX_EXAMPLES]
    ]
    print(json.dumps({"shared_8grams": len(seen_in), "examples": examples}))
    return 1 if seen_in else 0


if __name__ == "__main__":
    sys.exit(main())
