"""A part of a document's text as the page shows it: Markdown as HTML, with a passage marked."""

from __future__ import annotations

import re

from app.api.page.markdown import render

# Surround the passage: private-use characters, which are removed from the text.
BEGIN, END = "\ue002", "\ue003"
_NO_MARKS = str.maketrans(dict.fromkeys((BEGIN, END), "\ufffd"))
# What makes a line a heading, an item or a row: a mark before it would make it a paragraph.
_MARKUP = re.compile(r"[ \t]*(?:(?:#{1,6}|[-*+>|]|\d+[.)])[ \t]+)*")
_ROW_END = re.compile(r"[ \t]*\|?\s*\Z")
_FAR = 2_000


def blocks_around(text: str, start: int, end: int) -> tuple[int, int]:
    """A range extended to the blank lines around it, if they are near."""
    before = text.rfind("\n\n", max(0, start - _FAR), start)
    after = text.find("\n\n", end, end + _FAR)
    first = before + 2 if before >= 0 else 0 if start <= _FAR else start
    return first, after if after >= 0 else len(text) if len(text) - end <= _FAR else end


def rendered(text: str, start: int = 0, end: int = 0) -> str:
    """Markdown as safe HTML; the characters `BEGIN` and `END` surround `start` to `end`."""
    text = text.translate(_NO_MARKS)
    if start < end:
        markup = _MARKUP.match(text, start, end)
        first = markup.end() if markup else start
        last = _ROW_END.search(text, first, end)
        stop = last.start() if last else end
        text = f"{text[:first]}{BEGIN}{text[first:stop]}{END}{text[stop:]}"
    return "".join(block.html for block in render(text))
