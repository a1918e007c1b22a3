"""PDF: the text of each page with its form fields and notes, and a page as it looks.

Text recognition reads pages that are only pictures. Tables are read row by row, columns of prose
one after the other.
"""

from __future__ import annotations

import ctypes
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import pypdfium2
from pypdfium2 import raw

from app.documents.readers.common import (
    ENCRYPTED,
    FileText,
    UnreadableError,
    damaged,
    one_line,
    too_many_pages,
)
from app.documents.readers.grid import names_columns, table_lines
from app.documents.readers.ocr import DPI, MOST_PIXELS, Recognised, Tesseract, looked_at
from app.documents.readers.paragraphs import ENDS, glued, unwrapped

MOST_PAGES = 5000
_PASSWORD_ERROR = 4
_POINTS = 72  # an inch
_SHAPES = (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH)
_STAMP = 200  # characters, at most, that a scanned page may have as text on its picture
_COVERED = 0.5  # of a page, by the picture of a scan
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")  # letters of a font that does not say which they are
_NOTES = {raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_HIGHLIGHT}
_TICKED = {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}
_WRITTEN = {raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}


def pdf_text(data: bytes, ocr: Tesseract | None) -> FileText:
    """The text of each page in order; blank pages are empty. Raises UnreadableError."""
    pages: list[Recognised | str | None] = []
    written: list[str] = []  # into the forms and on the margins
    stamped = 0  # pages with only a stamp as text, and a picture that was not read
    layout = Layout()
    try:
        document = pypdfium2.PdfDocument(data)
        if len(document) > MOST_PAGES:
            raise too_many_pages(MOST_PAGES)
        document.init_forms()
        for number, page in enumerate(document, 1):
            text = _page_text(page, layout)
            written.append("\n".join(_filled_in(page, document.formenv)))
            if _is_readable(text, page):
                pages.append(text)
            else:
                width, height = page.get_size()
                scale = min(DPI / _POINTS, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
                picture = page.render(scale=scale, grayscale=True).to_pil() if ocr else None
                seen = ocr.read(picture, (number, len(document))) if ocr else None
                text = "" if _PRIVATE.search(text) else text
                stamped += not seen and bool(text.strip() or written[-1])
                pages.append(seen or text or ("" if written[-1] else None))
            page.close()
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise UnreadableError(ENCRYPTED) from None
        raise UnreadableError(damaged("PDF")) from None
    texts = without_running_lines([page if isinstance(page, str) else "" for page in pages])
    whole = [
        "\n\n".join(filter(None, (unwrapped(text), said))) if isinstance(page, str) else page
        for page, text, said in zip(pages, texts, written, strict=True)
    ]
    return looked_at(whole, ocr, stamped)


def _is_readable(text: str, page: Any) -> bool:
    """Whether a page's text is all there is to read on it."""
    letters = len(text.strip())
    if 2 * len(_PRIVATE.findall(text)) >= letters:
        # A picture may be all there is, or letters that are drawn as lines.
        return not letters and not any(page.get_objects(filter=_SHAPES, max_depth=3))
    if letters > _STAMP:
        return True
    width, height = page.get_size()
    images = page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3)
    bounds = (image.get_bounds() for image in images)
    return all((c - a) * (d - b) <= _COVERED * width * height for a, b, c, d in bounds)


def _page_text(page: Any, layout: Layout) -> str:
    text_page = page.get_textpage()
    text: str = text_page.get_text_range().replace("\r\n", "\n").replace("\r", "\n")
    boxes = [text_page.get_rect(n) for n in range(text_page.count_rects())]
    upright = sum(right - left >= top - bottom for left, bottom, right, top in boxes)
    columned = None
    # Whether any text is far to the side of that before it in the file, as in columns.
    aside = (
        b[1] < (a[1] + a[3]) / 2 < b[3] and b[0] - a[2] > a[3] - a[1] for a, b in pairwise(boxes)
    )
    if 2 * upright > len(boxes) and any(aside):
        texts = (one_line(text_page.get_text_bounded(*box)) for box in boxes)
        pieces = (Piece(a, b, c, d, said) for (a, b, c, d), said in zip(boxes, texts, strict=True))
        columned = layout.read([piece for piece in pieces if piece.text])
    text_page.close()
    return text if columned is None else columned


def _filled_in(page: Any, form: Any) -> Iterator[str]:
    """The text that people have entered in the page's form fields and notes."""
    for n in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, n)
        kind = raw.FPDFAnnot_GetSubtype(note)
        if kind in _NOTES:
            if said := _string(raw.FPDFAnnot_GetStringValue, note, b"Contents"):
                yield f"Note: {said}"
        elif kind == raw.FPDF_ANNOT_WIDGET and form is not None:
            field = raw.FPDFAnnot_GetFormFieldType(form, note)
            said = ""
            if field in _TICKED:
                said = "yes" if raw.FPDFAnnot_IsChecked(form, note) else "no"
            elif field in _WRITTEN:
                said = _string(raw.FPDFAnnot_GetFormFieldValue, form, note)
            if said:
                yield f"{_label(page, form, note)}: {said}"
        raw.FPDFPage_CloseAnnot(note)


def _label(page: Any, form: Any, widget: Any) -> str:
    """The text beside a field, on its left or else on its right; or the field's name."""
    box = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(widget, box)
    low, high = sorted((box.bottom, box.top))
    text_page = page.get_textpage()
    sides = ((0, box.left), (box.right, page.get_width()))
    beside = (one_line(text_page.get_text_bounded(a, low, b, high)) for a, b in sides)
    named = next(filter(None, beside), "")
    text_page.close()
    for call in (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName):
        named = named or _string(call, form, widget)
    return named.rstrip(": _.") or "Field"


def _string(call: Callable[..., int], *arguments: Any) -> str:
    """The line of text that a function writes as UTF-16 into a buffer of the size it asks for."""
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return one_line(buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\0"))


# Lines in reading order: tables row by row, columns of prose one after the other.


_GAP = 1.2  # line heights, at least, between two columns
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
    """Reads pages in order, so that a table continued on the next page keeps its column names."""

    _names: list[str] = field(default_factory=list)

    def read(self, pieces: Sequence[Piece]) -> str | None:
        """The text of a page, whose pieces come in the order of the file; None without columns."""
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
        """The text of successive lines, each of several pieces."""
        bounds = _columns([piece for line in lines for piece in line])
        cells = [_placed(line, bounds) for line in lines]
        if _is_prose(cells):
            columns = (filter(None, column) for column in zip(*cells, strict=True))
            return [line for column in columns for line in (*_run_on(column), "")]
        headed = names_columns(cells)
        if len(bounds) < 2 or (len(bounds) == 2 and not headed):
            return [" ".join(filter(None, row)) for row in cells]
        if headed:
            self._names = cells[0]
        elif first and len(self._names) == len(bounds):
            cells = [self._names, *cells]
        return table_lines(cells)


def _lines(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces of each line, from left to right; pieces that touch are joined."""
    lines: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda p: (-round((p.top + p.bottom) / 2), p.left)):
        middle = (piece.top + piece.bottom) / 2
        if lines and lines[-1][0].bottom <= middle <= lines[-1][0].top:
            lines[-1].append(piece)
        else:
            lines.append([piece])
    for line in lines:
        first, *others = sorted(line, key=lambda p: p.left)
        line[:] = [first]
        for piece in others:
            last = line[-1]
            height = max(last.top - last.bottom, piece.top - piece.bottom)
            if piece.left - last.right > _GAP * height:
                line.append(piece)
                continue
            apart = " " if piece.left - last.right > height / 8 else ""
            text = f"{last.text}{apart}{piece.text}"
            top, bottom = max(last.top, piece.top), min(last.bottom, piece.bottom)
            line[-1] = Piece(last.left, bottom, max(last.right, piece.right), top, text)
    return lines


def _columns(pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    """The left and right edges of the columns; pieces above one another share a column."""
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
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1][-1] not in ENDS:
            joined[-1] = glued(joined[-1], line)
        else:
            joined.append(line)
    return joined


def _is_prose(cells: Sequence[Sequence[str]]) -> bool:
    columns = list(zip(*cells, strict=True))
    return len(columns) > 1 and all(
        median(map(len, column)) > _PROSE and median(len(cell.split()) for cell in column) >= 4
        for column in columns
    )


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Pages without their running headers and footers, which only the first page has, on top.

    A sentence that crosses a page break is kept whole on the page where it begins.
    """
    split = [page.split("\n") for page in pages]
    edges = []  # the first and the last line with text of each page, by the letters in them
    for lines in split:
        filled = [n for n, line in enumerate(lines) if line.strip()]
        ends = {filled[0], filled[-1]} if len(filled) > 1 else ()
        edges.append([("".join(filter(str.isalpha, lines[n].lower())), n) for n in sorted(ends)])
    counts = Counter(name for each in edges for name in dict(each) if name)
    running = {name for name, count in counts.items() if 2 * count >= max(_LEAST_ROWS, len(pages))}
    shown = dict[str, str]()
    for lines, edge in zip(split, edges, strict=True):
        for name, n in edge:
            if name in running:
                shown.setdefault(name, lines[n].strip())
                lines[n] = ""
    kept = ["\n".join(lines) for lines in split]
    if shown:
        kept[0] = "\n\n".join((*shown.values(), kept[0].lstrip("\n")))
    for n in range(len(kept) - 1):
        begun, rest = kept[n].rstrip(), kept[n + 1].lstrip()
        if begun and begun[-1] not in ENDS and rest[:1].islower():
            sentence = _SENTENCE.match(rest)
            end = sentence.end() if sentence else len(rest)
            kept[n], kept[n + 1] = f"{begun}\n{rest[:end]}", rest[end:]
    return kept


# A page as it looks, with a passage marked.


_SCALE = 2.0  # pixels a point: 144 an inch
_MOST_DRAWN = 6_000_000  # pixels, for large plans
_TELLING = 12  # letters of a line that are likely to occur only once
_MARKED = (255, 222, 89)


def drawn(pdf: bytes, number: int, passage: str) -> tuple[bytes, float | None]:
    """A page as a PNG image with a passage marked, and how far down the first mark is.

    Pages count from 1. The mark's place runs from 0 (top) to 1, and is None without a visible mark.
    """
    from PIL import Image, ImageChops, ImageDraw  # most files do without

    document = pypdfium2.PdfDocument(pdf)
    document.init_forms()
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(_SCALE, (_MOST_DRAWN / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale)
    picture = bitmap.to_pil().convert("RGB")
    marks = Image.new("RGB", picture.size, "white")
    brush = ImageDraw.Draw(marks)
    place = bitmap.get_posconv(page)
    tops = []
    for left, bottom, right, top in _boxes(page, passage):
        (a, b), (c, d) = place.to_bitmap(left, top), place.to_bitmap(right, bottom)
        box = min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1  # it may be turned
        brush.rectangle(box, fill=_MARKED)
        tops.append(box[1] / picture.height)
    written = io.BytesIO()
    ImageChops.multiply(picture, marks).save(written, "PNG")
    top = max(0.0, min(tops, default=math.inf))
    return written.getvalue(), top if top <= 1 else None  # it may lie beyond what is shown


def _boxes(page: Any, passage: str) -> Iterator[tuple[float, float, float, float]]:
    """The boxes of a passage: of all of it or, if it runs through columns, line by line."""
    text_page = page.get_textpage()
    letters = [*_letters(text_page.get_text_range())]
    text = "".join(letter for _, letter in letters)
    lines = [line for line in map(_bare, passage.splitlines()) if len(line) >= _TELLING]
    whole = _bare(passage)
    for sought in [whole] if whole in text else lines:
        if sought and (first := text.find(sought)) >= 0:
            start, last = letters[first][0], letters[first + len(sought) - 1][0]
            for n in range(text_page.count_rects(start, last + 1 - start)):
                yield text_page.get_rect(n)


def _bare(text: str) -> str:
    return "".join(letter for _, letter in _letters(text))


def _letters(text: str) -> Iterator[tuple[int, str]]:
    """Letters with their places: the extracted text has other spaces and no ligatures."""
    for place, character in enumerate(text):
        for letter in unicodedata.normalize("NFKC", character).lower():
            if letter.isalnum():
                yield place, letter
