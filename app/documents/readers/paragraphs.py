"""Joins lines that were only broken to fit a width: one line per paragraph, in any reader.

Lists, tables, headings, verse and addresses keep their lines.
"""

from __future__ import annotations

import re
from itertools import pairwise

from app.documents.readers.common import clean
from dragon.retrieval.chunking import PAGE_BREAK

ENDS = '.!?…:;|。！？"”’»)]'
"""The last characters of lines that do not run on."""

_ENDS = re.compile(r"[.!?…:;|。！？][\"'”’»)\]]*$")
# Beginnings of lines of their own: items, quotes, headings, rows, fences, records.
_APART = re.compile(
    r"[-*+•–—>#|=~`\[{<]|\d{1,3}[.)](?:\s|$)|[a-zA-Z][.)]\s"
    r"|[^\W\d_][\w -]{0,40}: |[^\n;]{1,200}; [^\n:;]{1,60}: "
)
_TIMED = re.compile(r"\d{1,2}:\d\d|\d{4}-\d\d|\d{1,2}[./]\d")  # so do times and dates in a list
_HEADING = re.compile(r"#{1,6} ")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_DIVIDED = re.compile(r"\w-$")
_LEAST_WIDTH = 40  # characters, of the longest line: nobody breaks narrower prose by hand
_NARROWEST = 30  # the same if all lines reach it and one goes on in lower case, as in columns
_NEARLY = 0.9  # of that width, for letters that differ in width
_LEAST_SHARE = 0.5  # of the width, if the next line goes on in lower case


def paragraphs(text: str) -> str:
    """The text with its paragraphs joined; blocks of code stay as they are."""
    out: list[str] = []
    block: list[str] = []
    code = False
    for line in [*text.split("\n"), ""]:
        fence = _FENCE.match(line) is not None
        if code or fence or not line.strip():
            out += _joined(block)
            block = []
            out.append(line)
            code ^= fence
        else:
            block.append(line)
    return "\n".join(out[:-1])


def _joined(lines: list[str]) -> list[str]:
    if len(lines) < 2:
        return lines
    width = max(len(line.rstrip()) for line in lines)
    full = [  # the next word would not have fitted in
        len(line.rstrip()) + 1 + len(_first(following)) > _NEARLY * width
        for line, following in pairwise(lines)
    ]
    # All lines but those that end a sentence reach the width: the block was broken to fit it.
    broken = all(f or _ENDS.search(line.rstrip()) for f, line in zip(full, lines, strict=False))
    lowered = any(line.lstrip()[0].islower() for line in lines[1:])
    prose = width >= (_NARROWEST if broken and lowered else _LEAST_WIDTH)
    joined = [[lines[0]]]  # the parts of each: a page may be one paragraph
    for n, line in enumerate(lines[1:]):
        if _goes_on(lines[n], line, width, full=full[n] and broken, prose=prose):
            joined[-1][-1], part = _seam(joined[-1][-1], line)
            joined[-1].append(part)
        else:
            joined.append([line])
    return ["".join(parts) for parts in joined]


def _goes_on(line: str, following: str, width: int, *, full: bool, prose: bool) -> bool:
    line, begun = line.rstrip(), following.lstrip()
    if _DIVIDED.search(line) and begun[0].isalnum():
        return True
    if _ENDS.search(line) or _APART.match(begun) or _HEADING.match(line.lstrip()):
        return False
    if _TIMED.match(begun) and (not full or _TIMED.match(line.lstrip())):
        return False
    indented = len(following) - len(begun) > len(line) - len(line.lstrip())
    if indented and _APART.match(line.lstrip()):  # within an item of a list
        return begun[0].islower() or full
    listed = _first(line).lower() == _first(begun).lower() and not begun[0].islower()
    if not prose or listed:
        return False
    return full or (begun[0].islower() and len(line) >= _LEAST_SHARE * width)


def _first(line: str) -> str:
    """The first word of a line that is not blank; in lines of a list it is the same."""
    return line.split(maxsplit=1)[0]


def glued(line: str, following: str) -> str:
    """Two parts of a paragraph as one, also where a word was divided between them."""
    return "".join(_seam(line, following))


def _seam(line: str, following: str) -> tuple[str, str]:
    line, following = line.rstrip(), following.lstrip()
    if _DIVIDED.search(line[-2:]):
        return (line[:-1] if following[0].islower() else line), following
    return line, f" {following}"


def unwrapped(page: str) -> str:
    """The text of a page with lines joined, also where a mark divides a word between them."""
    page = page.replace("\r\n", "\n").replace("\r", "\n").replace(PAGE_BREAK, "\n")
    lines = clean(re.sub(r"[\ufffe\u00ad]\n?", "", page)).split("\n")
    return paragraphs("\n".join(line.strip() for line in lines))
