"""RTF: headings, paragraphs, lists and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from app.documents.readers.common import UnreadableError, damaged, tidy
from app.documents.readers.grid import table_lines

# Control words become characters that no text has, and pass through the library as such.
_CELL, _ROW = "\x1f", "\x1e"
_CELLS = re.compile(r"\\(?:nest)?cell(?![a-z]) ?")
_ROWS = re.compile(r"\\(?:trowd|row|nestrow)(?![a-z]) ?")
_HEADINGS = re.compile(r"\\outlinelevel([0-5])(?![0-9]) ?")
_BULLETS = re.compile(r"^[•·▪◦\uf0b7-]\t", re.MULTILINE)
_BARE_MARKS = re.compile(r"^#+ (?=#+ |$)", re.MULTILINE)
_PICTURES = re.compile(rb"(?:[0-9A-Fa-f]{2}[\r\n]{0,2}){200,}")


def rtf_text(data: bytes) -> str:
    """The text of a file; pictures, headers and footers are left out. Raises UnreadableError."""
    from striprtf.striprtf import rtf_to_text

    source = _PICTURES.sub(b"", data).decode("latin-1")
    source = source.replace("\\fldinst{", "\\fldinst {")  # else it seeks links in quadratic time
    source = _ROWS.sub(f"{{{_ROW}}}", _CELLS.sub(f"{{{_CELL}}}", source))
    source = _HEADINGS.sub(lambda found: f"{{{'#' * (int(found[1]) + 1)} }}", source)
    try:
        text = rtf_to_text(source, errors="replace")
    except (ValueError, LookupError, TypeError):  # what a number that is none ends in
        raise UnreadableError(damaged(".rtf")) from None
    text = _BARE_MARKS.sub("", _BULLETS.sub("- ", text))
    return tidy("\n\n".join(_blocks(text)))


def _blocks(text: str) -> Iterator[str]:
    """Tables, and the text between them."""
    pieces = [piece for piece in text.split(_ROW) if piece.strip()]
    for in_table, run in groupby(pieces, lambda piece: _CELL in piece):
        if in_table:
            yield "\n".join(table_lines([row.split(_CELL) for row in run]))
        else:
            yield "\n".join(run)
