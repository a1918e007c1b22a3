"""PDF: the text of each page, its form fields and notes; recognised where it is only a picture."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pypdfium2
from pypdfium2 import raw

from app.documents.readers.common import UnreadableError, one_line
from app.documents.readers.layout import Layout, Piece, without_running_lines
from app.documents.readers.ocr import DPI, MOST_PIXELS, Recognised, Tesseract
from app.documents.readers.paragraphs import unwrapped
from dragon.localizable import localizable

MOST_PAGES = 5000
_TOO_MANY = localizable(
    "file.pdf.pages", "The PDF has more than {count} pages. Split it.", count=MOST_PAGES
)
_ENCRYPTED = localizable("file.pdf.encrypted", "The PDF is encrypted. Save it without a password.")
_DAMAGED = localizable(
    "file.pdf.damaged", "The PDF is damaged. Open it elsewhere and save it again."
)
_PASSWORD_ERROR = 4
_POINTS = 72  # an inch
_SHAPES = (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH)
_STAMP = 200  # characters, at most, that a scanned page may have as text on its picture
_COVERED = 0.5  # of a page, by the picture of a scan
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")  # letters of a font that does not say which they are
_NOTES = {raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_HIGHLIGHT}
_TICKED = {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}
_WRITTEN = {raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}


def pdf_pages(data: bytes, ocr: Tesseract | None) -> tuple[Sequence[Recognised | str | None], int]:
    """The pages in order, blank ones being empty; None for a picture that was not read.

    And how many more have but a stamp as text, and a picture that was not read. Raises
    UnreadableError.
    """
    pages: list[Recognised | str | None] = []
    written: list[str] = []  # into the forms and on the margins
    stamped = 0
    layout = Layout()
    try:
        document = pypdfium2.PdfDocument(data)
        if len(document) > MOST_PAGES:
            raise UnreadableError(_TOO_MANY)
        document.init_forms()
        for number, page in enumerate(document, 1):
            text = _page_text(page, layout)
            written.append("\n".join(_filled_in(page, document.formenv)))
            if _is_readable(text, page):
                pages.append(text)
            else:
                seen = ocr.read(_picture(page), (number, len(document))) if ocr else None
                text = "" if _PRIVATE.search(text) else text
                stamped += not seen and bool(text.strip() or written[-1])
                pages.append(seen or text or ("" if written[-1] else None))
            page.close()
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise UnreadableError(_ENCRYPTED) from None
        raise UnreadableError(_DAMAGED) from None
    texts = without_running_lines([page if isinstance(page, str) else "" for page in pages])
    return [
        "\n\n".join(filter(None, (unwrapped(text), said))) if isinstance(page, str) else page
        for page, text, said in zip(pages, texts, written, strict=True)
    ], stamped


def _is_readable(text: str, page: Any) -> bool:
    """Whether a page's text is all that it says, or it shows nothing else."""
    letters = len(text.strip())
    if 2 * len(_PRIVATE.findall(text)) >= letters:
        # A picture may be all there is, or letters that are drawn as lines.
        return not letters and not any(page.get_objects(filter=_SHAPES, max_depth=3))
    return letters > _STAMP or not _is_scanned(page)


def _is_scanned(page: Any) -> bool:
    """Whether a picture covers most of the page."""
    width, height = page.get_size()
    for image in page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > _COVERED * width * height:
            return True
    return False


def _picture(page: Any) -> Any:
    """The page in gray, as an image of Pillow's."""
    width, height = page.get_size()
    most = (MOST_PIXELS / max(1.0, width * height)) ** 0.5
    return page.render(scale=min(DPI / _POINTS, most), grayscale=True).to_pil()


def _page_text(page: Any, layout: Layout) -> str:
    text_page = page.get_textpage()
    text: str = text_page.get_text_range().replace("\r\n", "\n").replace("\r", "\n")
    boxes = [text_page.get_rect(n) for n in range(text_page.count_rects())]
    upright = sum(right - left >= top - bottom for left, bottom, right, top in boxes)
    columned = None
    if 2 * upright > len(boxes) > 1 and _side_by_side(boxes):
        texts = (one_line(text_page.get_text_bounded(*box)) for box in boxes)
        pieces = (Piece(a, b, c, d, said) for (a, b, c, d), said in zip(boxes, texts, strict=True))
        columned = layout.read([piece for piece in pieces if piece.text])
    text_page.close()
    return text if columned is None else columned


def _side_by_side(boxes: Sequence[tuple[float, float, float, float]]) -> bool:
    """Whether anything stands far beside what comes before it in the file, as in columns."""
    return any(
        b[1] < (a[1] + a[3]) / 2 < b[3] and b[0] - a[2] > a[3] - a[1] for a, b in pairwise(boxes)
    )


def _filled_in(page: Any, form: Any) -> Iterator[str]:
    """What people have written into its form and on its margin."""
    for n in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, n)
        kind = raw.FPDFAnnot_GetSubtype(note)
        said = ""
        if kind in _NOTES:
            said = one_line(_string(raw.FPDFAnnot_GetStringValue, note, b"Contents"))
        elif kind == raw.FPDF_ANNOT_WIDGET and form is not None:
            said = one_line(_value(form, note))
        if said:
            yield f"{'Note' if kind in _NOTES else _label(page, form, note)}: {said}"
        raw.FPDFPage_CloseAnnot(note)


def _value(form: Any, widget: Any) -> str:
    kind = raw.FPDFAnnot_GetFormFieldType(form, widget)
    if kind in _TICKED:
        return "yes" if raw.FPDFAnnot_IsChecked(form, widget) else "no"
    return _string(raw.FPDFAnnot_GetFormFieldValue, form, widget) if kind in _WRITTEN else ""


def _label(page: Any, form: Any, widget: Any) -> str:
    """What stands beside a field, on its left or, of a box to tick, its right; or its name."""
    box = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(widget, box)
    low, high = sorted((box.bottom, box.top))
    text_page = page.get_textpage()
    sides = ((0, box.left), (box.right, page.get_width()))
    beside = (one_line(text_page.get_text_bounded(a, low, b, high)) for a, b in sides)
    named = next(filter(None, beside), "")
    text_page.close()
    for call in (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName):
        named = named or one_line(_string(call, form, widget))
    return named.rstrip(": _.") or "Field"


def _string(call: Callable[..., int], *arguments: Any) -> str:
    """What a function writes as UTF-16 into a buffer that is as long as it says."""
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\0")
