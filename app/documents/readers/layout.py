"""The lines of a PDF's page as they are read: tables by rows, columns of prose one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from app.documents.readers.grid import names_columns, table_lines
from app.documents.readers.paragraphs import ENDS, glued

_GAP = 1.2  # heights of a line, between what stands in two columns
_LEAST_ROWS = 3
_SENTENCE = re.compile(r".*?[.!?…][\"'”’»)]*(?=\s)", re.DOTALL)
_PROSE = 15  # characters that a column of prose has in most lines, and four words


@dataclass(frozen=True)
class Piece:
    """Text on one line, between left and right, bottom and top, in points."""

    left: float
    bottom: float
    right: float
    top: float
    text: str


@dataclass
class Layout:
    """Reads pages in order: a table that goes on over a page's end keeps the names of its columns.

    `read` gives a page's text, or None where it has no columns and its plain text will do.
    """

    _names: list[str] = field(default_factory=list)

    def read(self, pieces: Sequence[Piece]) -> str | None:
        """The page of these pieces, which come in the order of the file."""
        lines = _lines(pieces)
        if not any(len(line) > 1 for line in lines):
            self._names = []
            return None
        blocks: list[str] = []
        at = 0
        while at < len(lines):
            end = at
            while end < len(lines) and len(lines[end]) > 1:
                end += 1
            if end - at >= _LEAST_ROWS:
                blocks += ["", *self._block(lines[at:end], first=at == 0), ""]
            else:
                end = max(end, at + 1)
                blocks += [" ".join(piece.text for piece in line) for line in lines[at:end]]
            at = end
        return "\n".join(blocks)

    def _block(self, lines: Sequence[Sequence[Piece]], *, first: bool) -> list[str]:
        """Successive lines of several pieces."""
        bounds = _columns([piece for line in lines for piece in line])
        cells = [_placed(line, bounds) for line in lines]
        if _is_prose(cells):
            columns = (filter(None, column) for column in zip(*cells, strict=True))
            return [line for column in columns for line in (*_run_on(column), "")]
        if len(bounds) < 2 or (len(bounds) == 2 and not names_columns(cells)):
            return [" ".join(filter(None, row)) for row in cells]
        if names_columns(cells):
            self._names = cells[0]
        elif first and len(self._names) == len(bounds):
            cells = [self._names, *cells]
        return table_lines(cells)


def _lines(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces side by side, from left to right; those that touch are one."""
    lines: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda p: (-round((p.top + p.bottom) / 2), p.left)):
        middle = (piece.top + piece.bottom) / 2
        if lines and lines[-1][0].bottom <= middle <= lines[-1][0].top:
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return [_merged(sorted(line, key=lambda p: p.left)) for line in lines]


def _merged(line: Sequence[Piece]) -> list[Piece]:
    merged = [line[0]]
    for piece in line[1:]:
        last = merged[-1]
        height = max(last.top - last.bottom, piece.top - piece.bottom)
        if piece.left - last.right > _GAP * height:
            merged.append(piece)
            continue
        apart = " " if piece.left - last.right > height / 8 else ""
        text = f"{last.text}{apart}{piece.text}"
        top, bottom = max(last.top, piece.top), min(last.bottom, piece.bottom)
        merged[-1] = Piece(last.left, bottom, max(last.right, piece.right), top, text)
    return merged


def _columns(pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    """From where to where the columns reach: pieces one over the other are in one."""
    bounds: list[tuple[float, float]] = []
    for left, right in sorted((piece.left, piece.right) for piece in pieces):
        if bounds and left < bounds[-1][1]:
            bounds[-1] = bounds[-1][0], max(bounds[-1][1], right)
        else:
            bounds.append((left, right))
    return bounds


def _placed(line: Sequence[Piece], bounds: Sequence[tuple[float, float]]) -> list[str]:
    cells = [""] * len(bounds)
    for piece in line:
        n = next((n for n, (_, right) in enumerate(bounds) if piece.left < right), -1)
        cells[n] = f"{cells[n]} {piece.text}".strip()
    return cells


def _run_on(lines: Iterable[str]) -> list[str]:
    """The lines of a column of prose, one a paragraph."""
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1][-1] not in ENDS:
            joined[-1] = glued(joined[-1], line)
        else:
            joined.append(line)
    return joined


def _is_prose(cells: Sequence[Sequence[str]]) -> bool:
    """Whether each column is text that runs on, and not cells of a table."""
    columns = list(zip(*cells, strict=True))
    return len(columns) > 1 and all(
        median(map(len, column)) > _PROSE and median(len(cell.split()) for cell in column) >= 4
        for column in columns
    )


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Pages without lines that stand at the edge of most of them; the first page has them on top.

    A sentence that goes on over a page's end stands whole on the page where it begins.
    """
    edges = [_edges(page) for page in pages]
    named = [{_unnumbered(line) for line in each.values()} for each in edges]
    counts = Counter(name for each in named for name in each if name)
    running = {name for name, count in counts.items() if 2 * count >= max(_LEAST_ROWS, len(pages))}
    kept, shown = [], dict[str, str]()
    for page, edge in zip(pages, edges, strict=True):
        lines = page.split("\n")
        for n, line in edge.items():
            if _unnumbered(line) in running:
                shown.setdefault(_unnumbered(line), line)
                lines[n] = ""
        kept.append("\n".join(lines))
    if shown:
        kept[0] = "\n\n".join((*shown.values(), kept[0].lstrip("\n")))
    for n in range(len(kept) - 1):
        begun, rest = kept[n].rstrip(), kept[n + 1].lstrip()
        if begun and begun[-1] not in ENDS and rest[:1].islower():
            sentence = _SENTENCE.match(rest)
            end = sentence.end() if sentence else len(rest)
            kept[n], kept[n + 1] = f"{begun}\n{rest[:end]}", rest[end:]
    return kept


def _edges(page: str) -> dict[int, str]:
    """The first and the last line that say anything, by their number."""
    lines = [(n, line.strip()) for n, line in enumerate(page.split("\n")) if line.strip()]
    return dict([lines[0], lines[-1]]) if len(lines) > 1 else {}


def _unnumbered(line: str) -> str:
    return "".join(each for each in line.lower() if each.isalpha())
