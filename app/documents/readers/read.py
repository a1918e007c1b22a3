"""Extracts the text of each page of a file of any supported kind."""

from __future__ import annotations

from dataclasses import dataclass

from app.documents.readers import tables
from app.documents.readers.archive import Archive
from app.documents.readers.common import NESTED, NO_TEXT, PAGE_BREAK, UnreadableError
from app.documents.readers.epub import epub_chapters
from app.documents.readers.mail import mail_text
from app.documents.readers.markdown import markdown_text
from app.documents.readers.markup import html_text
from app.documents.readers.office import docx_text
from app.documents.readers.opendocument import odp_slides, odt_text
from app.documents.readers.pdf import pdf_pages
from app.documents.readers.presentation import pptx_slides
from app.documents.readers.rtf import rtf_text
from app.documents.readers.sniff import decoded, sniff
from app.documents.readers.spreadsheet import sheets_text

_MOST_NESTED_MAILS = 3


@dataclass(frozen=True)
class Reading:
    """The kind of a file, detected from its bytes, and the text of each page.

    `note` says what could not be read.
    """

    kind: str
    pages: list[str]
    note: str | None = None


def read(data: bytes, name: str, nested: int = 0) -> Reading:
    """Read a file. Raises UnreadableError with a message for the user."""
    kind = sniff(data, name)
    if kind == "pdf":
        return Reading(kind, *pdf_pages(data))
    pages = _pages(kind, data, name, nested)
    if not any(page.strip() for page in pages):
        raise UnreadableError(NO_TEXT)
    return Reading(kind, pages)


def _pages(kind: str, data: bytes, name: str, nested: int) -> list[str]:
    match kind:
        case "epub":
            return epub_chapters(Archive(data, ".epub"))
        case "docx":
            return [docx_text(Archive(data, ".docx"))]
        case "pptx":
            return pptx_slides(Archive(data, ".pptx"))
        case "odt":
            return [odt_text(Archive(data, ".odt"))]
        case "odp":
            return odp_slides(Archive(data, ".odp"))
        case "xlsx" | "ods":
            return [sheets_text(data, f".{kind}")]
        case "rtf":
            return [rtf_text(data)]
        case "html":
            return [html_text(data)]
        case "email":
            return [mail_text(data, lambda inner, title: _attached(inner, title, nested))]
        case "csv":
            rows = tables.rows(decoded(data), named=True) or []
            return ["\n".join(tables.table_lines(rows))]
        case "markdown":
            return markdown_text(decoded(data)).split(PAGE_BREAK)
        case "json":
            return ["\n".join(tables.json_lines(tables.json_value(decoded(data))))]
    return decoded(data).split(PAGE_BREAK)


def _attached(data: bytes, name: str, nested: int) -> str:
    if nested == _MOST_NESTED_MAILS:
        raise UnreadableError(NESTED)
    return "\n\n".join(read(data, name, nested + 1).pages)
