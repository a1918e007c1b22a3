"""PDF: the text of each page, recognised where the page is only a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pypdfium2

from app.documents.readers.common import UnreadableError, unwrapped
from app.documents.readers.ocr import DPI, MOST_PIXELS, Recognised, Tesseract
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
_SHAPES = (pypdfium2.raw.FPDF_PAGEOBJ_IMAGE, pypdfium2.raw.FPDF_PAGEOBJ_PATH)


def pdf_pages(data: bytes, ocr: Tesseract | None) -> Sequence[Recognised | str | None]:
    """The pages in order, blank ones being empty; None for a picture that was not read.

    Raises UnreadableError.
    """
    pages: list[Recognised | str | None] = []
    try:
        document = pypdfium2.PdfDocument(data)
        if len(document) > MOST_PAGES:
            raise UnreadableError(_TOO_MANY)
        for number, page in enumerate(document, 1):
            text = unwrapped(_page_text(page))
            if text.strip() or not _shows_something(page):
                pages.append(text)
            else:
                page_of = number, len(document)
                pages.append(ocr.read(_picture(page), page_of) if ocr else None)
            page.close()
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise UnreadableError(_ENCRYPTED) from None
        raise UnreadableError(_DAMAGED) from None
    return pages


def _shows_something(page: Any) -> bool:
    """Whether there is a picture on it, or letters that are drawn as lines."""
    shapes = page.get_objects(filter=_SHAPES, max_depth=3)
    return next(iter(shapes), None) is not None


def _picture(page: Any) -> Any:
    """The page in gray, as an image of Pillow's."""
    width, height = page.get_size()
    most = (MOST_PIXELS / max(1.0, width * height)) ** 0.5
    return page.render(scale=min(DPI / _POINTS, most), grayscale=True).to_pil()


def _page_text(page: Any) -> str:
    text_page = page.get_textpage()
    text: str = text_page.get_text_range()
    text_page.close()
    return text
