"""Extracts the text of each page of a file of any supported kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.documents.readers.archive import Archive
from app.documents.readers.common import (
    NESTED,
    NO_TEXT,
    NOTHING,
    PAGE_BREAK,
    Properties,
    UnreadableError,
)
from app.documents.readers.data import csv_rows, json_lines, json_value, recorded
from app.documents.readers.grid import table_lines
from app.documents.readers.mail import mail_text, mailbox_text
from app.documents.readers.markup import (
    epub_chapters,
    html_text,
    markdown_text,
    without_front_matter,
)
from app.documents.readers.ocr import NEEDED, UNCERTAIN, Recognised, Tesseract, image_pages
from app.documents.readers.office import docx_pages, odp_slides, odt_pages, pptx_slides, rtf_text
from app.documents.readers.paragraphs import paragraphs
from app.documents.readers.pdf import pdf_pages
from app.documents.readers.sniff import readable, sniff
from app.documents.readers.spreadsheet import sheets_text
from dragon.localizable import Localizable, joined, localizable

_PACKED = {"docx": docx_pages, "pptx": pptx_slides, "odt": odt_pages, "odp": odp_slides}
_MOST_NESTED_MAILS = 3
_MOST_NAMED = 10
_PICTURES = localizable(
    "file.pictures",
    "The file has no text in it but pictures, as when it was scanned. {needed}",
    needed=NEEDED,
)
_FAILED = localizable(
    "file.ocr.failed",
    "Text recognition (OCR) failed on the file, or took too long. Scan it anew, or split it.",
)


@dataclass(frozen=True)
class FileText:
    """The kind of a file, the text of each page, and what the file says of itself.

    `note` says what could not be read, or not for certain; `confidence`, in percent, is that of
    pages recognised in a picture, by their number from 1.
    """

    kind: str
    pages: list[str]
    note: Localizable | None = None
    properties: Properties = NOTHING
    confidence: Mapping[int, int] = field(default_factory=dict)


def read(data: bytes, name: str, ocr: Tesseract | None = None, nested: int = 0) -> FileText:
    """Read a file. Raises UnreadableError with a message for the user."""
    reading = _reading(sniff(data, name), data, name, ocr, nested)
    if not any(page.strip() for page in reading.pages):
        raise UnreadableError(NO_TEXT)
    return reading


def _reading(kind: str, data: bytes, name: str, ocr: Tesseract | None, nested: int) -> FileText:
    def attached(inner: bytes, title: str) -> str:
        if nested == _MOST_NESTED_MAILS:
            raise UnreadableError(NESTED)
        reading = read(inner, title, ocr, nested + 1)
        notes = [reading.note] if reading.note and reading.confidence else []
        return "\n\n".join([*notes, *reading.pages])

    match kind:
        case "pdf":
            pages, stamped = pdf_pages(data, ocr)
            return _looked_at(kind, pages, ocr, stamped)
        case "png" | "jpeg" | "tiff" | "webp":
            return _looked_at(kind, image_pages(data, kind, ocr), ocr)
        case "email":
            text, properties = mail_text(data, attached)
            return FileText(kind, [text], properties=properties)
        case "mbox":
            text, note = mailbox_text(data, attached)
            return FileText(kind, [text], note)
        case "epub":
            chapters, note = epub_chapters(Archive(data, ".epub"))
            return FileText(kind, chapters, note)
        case "xlsx" | "ods":
            text, note = sheets_text(data, f".{kind}")
            return FileText(kind, [text], note)
        case "docx" | "pptx" | "odt" | "odp":
            return FileText(kind, _PACKED[kind](Archive(data, f".{kind}")))
        case "rtf":
            return FileText(kind, [rtf_text(data)])
        case "html":
            return FileText(kind, [html_text(data)])
    whole = readable(data)
    if kind != "markdown":
        return FileText(kind, _plain_pages(kind, whole.text), whole.note)
    text, properties = without_front_matter(whole.text)
    return FileText(kind, _plain_pages("text", markdown_text(text)), whole.note, properties)


def _looked_at(
    kind: str, pages: Sequence[Recognised | str | None], ocr: Tesseract | None, stamped: int = 0
) -> FileText:
    """A reading of pages that may be pictures: None for one not read, `stamped` more besides."""
    texts = [page.text if isinstance(page, Recognised) else page or "" for page in pages]
    confidence = {
        n: page.confidence
        for n, page in enumerate(pages, 1)
        if isinstance(page, Recognised) and page.text
    }
    unread = stamped + sum(page is None for page in pages)
    if not any(text.strip() for text in texts):
        raise UnreadableError((_FAILED if ocr else _PICTURES) if unread else NO_TEXT)
    notes = []
    if unread and ocr:
        failed = (
            "{unread} of {count} pages were not read: text recognition (OCR) failed on them, or "
            "took too long."
        )
        notes.append(localizable("file.note.left_out", failed, unread=unread, count=len(pages)))
    elif unread:
        scanned = "{unread} of {count} pages have no text, as when they were scanned. {needed}"
        blanks = localizable(
            "file.note.scanned", scanned, unread=unread, count=len(pages), needed=NEEDED
        )
        notes.append(blanks)
    unsure = [
        localizable("file.note.page", "page {page} ({confidence} %)", page=n, confidence=percent)
        for n, percent in confidence.items()
        if percent < UNCERTAIN
    ]
    if unsure:
        more = [Localizable("...")] if len(unsure) > _MOST_NAMED else []
        listed = joined([*unsure[:_MOST_NAMED], *more], ", ")
        uncertain = "Text recognition (OCR) was uncertain: {pages}"
        notes.append(localizable("file.note.uncertain", uncertain, pages=listed))
    return FileText(kind, texts, joined(notes, " ") if notes else None, confidence=confidence)


def _plain_pages(kind: str, text: str) -> list[str]:
    """The pages of what is text already."""
    match kind:
        case "csv":
            return ["\n".join(table_lines(csv_rows(text, named=True) or []))]
        case "json":
            return ["\n".join(json_lines(json_value(text)))]
    if (entries := recorded(text)) is not None:
        return [entries]
    return [paragraphs(page) for page in text.split(PAGE_BREAK)]
