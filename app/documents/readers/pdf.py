"""PDF: the text of each page."""

from __future__ import annotations

import re
from typing import Any

import pypdfium2

from app.documents.readers.common import PAGE_BREAK, UnreadableError, clean

MOST_PAGES = 5000
_PASSWORD_ERROR = 4


def pdf_pages(data: bytes) -> tuple[list[str], str | None]:
    """The pages in order, those without text being empty, and a note if some look scanned.

    Raises UnreadableError.
    """
    scanned = 0
    pages = []
    try:
        document = pypdfium2.PdfDocument(data)
        if len(document) > MOST_PAGES:
            raise UnreadableError(f"The PDF has more than {MOST_PAGES} pages. Split it.")
        for page in document:
            pages.append(_tidy(_page_text(page)))
            scanned += not pages[-1].strip() and _has_image(page)
            page.close()
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise UnreadableError("The PDF is encrypted. Save it without a password.") from None
        raise UnreadableError("The PDF is damaged. Open it elsewhere and save it again.") from None
    if not any(page.strip() for page in pages):
        raise UnreadableError(
            "The PDF has no text in it; it may be a scan. Run text recognition (OCR) first."
        )
    note = f"{scanned} of {len(pages)} pages have no text; they may be scans."
    return pages, note if scanned else None


def _has_image(page: Any) -> bool:
    images = page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    return next(iter(images), None) is not None


def _page_text(page: Any) -> str:
    text_page = page.get_textpage()
    text: str = text_page.get_text_range()
    text_page.close()
    return text


def _tidy(page: str) -> str:
    """The page's text with its lines joined where only the page's width broke them."""
    page = page.replace("\r\n", "\n").replace("\r", "\n").replace(PAGE_BREAK, "\n")
    page = re.sub(r"[\ufffe\u00ad]\n?", "", page)  # a word divided at the end of a line
    lines = [line.strip() for line in clean(page).split("\n")]
    full = 0.7 * max(map(len, lines))
    pieces = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        runs_on = len(line) >= full and not line.endswith((".", "!", "?", ":")) and following
        pieces += [line, " " if runs_on else "\n"]
    return "".join(pieces)
