"""The parsed texts of documents, one file each."""

from __future__ import annotations

import re
from pathlib import Path

from dragon.retrieval.chunking import each_sentence
from dragon.retrieval.lexical import words

APART = re.compile(r"\n\s*\n|\f")
"""Stands between two paragraphs."""

_LIST = re.compile(r"(?:\n{1,2}[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+[^\n]+)+")
_REST = re.compile(r"[ \t]+\S[^\n]*")  # of a line
_ENTRY = re.compile(r"(?:\A|\n)[ \t]*(?:[-*•–][ \t]+)?\Z")  # what stands before one
_LABEL = re.compile(r"[^\W_][^:.!?\n]{0,39}:[ \t]")
_UNDER = re.compile(r"\n{1,2}[^\n]*[.!?](?=\s|\Z)")  # a heading
_HEADING = 8  # words, at most
_FEW = 3  # words
_TITLE = 100  # characters, at most
_REACH = 300  # characters on each side of a passage, at most


def text_of(files: Path, document: str) -> str:
    """A document's text under `files`; "" while it is being read, or if it was deleted."""
    try:
        return (files / document / "text").read_text("utf-8")
    except FileNotFoundError:
        return ""


def title_of(files: Path, document: str) -> str:
    """A document's first line if it is no sentence, "" else. It reads the beginning of a file."""
    try:
        with (files / document / "text").open(encoding="utf-8") as file:
            first = file.read(4 * _TITLE).lstrip().partition("\n")[0].rstrip()
    except FileNotFoundError:
        return ""
    return first if len(first) <= _TITLE and not first.endswith((".", "!", "?", ";")) else ""


def whole_end(text: str, start: int, end: int) -> int:
    """Where a sentence from `start` to `end` is whole enough to answer.

    Usually that is `end`. A sentence that ends with a colon includes the list after it, one that
    begins a labelled entry ("F12: motor too hot.") the rest of its line, unless that is long, and
    one of up to three words ("Pressure.") the next sentence of its line. A heading includes the
    first sentence under it.
    """
    if text[start:end].endswith(":"):
        found = _LIST.match(text, end)
        return found.end() if found and found.end() - end <= _REACH else end
    count, begins = len(words(text[start:end])), _ENTRY.search(text, max(0, start - _REACH), start)
    if (
        text[end - 1].isalnum()
        and count <= _HEADING
        and begins
        and (found := _UNDER.match(text, end))
    ):
        return end + next(each_sentence([found.group()])).end
    if (rest := _REST.match(text, end)) is None:
        return end
    if begins and _LABEL.match(text, start, end):
        return rest.end() if rest.end() - start <= _REACH else end
    if count <= _FEW:
        return end + next(each_sentence([rest.group()])).end
    return end


def paragraph_at(text: str, start: int, end: int) -> str:
    """The paragraph that a passage from `start` to `end` is in, cut short where it is long."""
    first, last = max(0, start - _REACH), min(len(text), end + _REACH)
    before, behind = text[first:start], text[end:last]
    breaks = list(APART.finditer(before))
    if breaks:
        before = before[breaks[-1].end() :]
    elif first:
        before = f"… {before.partition(' ')[2]}"
    if found := APART.search(behind):
        behind = behind[: found.start()]
    elif last < len(text):
        behind = f"{behind.rpartition(' ')[0]} …"
    return f"{before}{text[start:end]}{behind}".strip()
