"""Extracts the text of each page of a file of any supported kind."""

from __future__ import annotations

from dataclasses import dataclass

from app.documents.readers import tables
from app.documents.readers.archive import Archive
from app.documents.readers.common import NESTED, NO_TEXT, PAGE_BREAK, UnreadableError
from app.documents.readers.epub import epub_chapters
from app.documents.readers.mail import mail_text, mailbox_text
from app.documents.readers.markdown import markdown_text, without_front_matter
from app.documents.readers.markup import html_text
from app.documents.readers.office import docx_text
from app.documents.readers.opendocument import odp_slides, odt_text
from app.documents.readers.pdf import pdf_pages
from app.documents.readers.presentation import pptx_slides
from app.documents.readers.properties import NOTHING, Properties
from app.documents.readers.rtf import rtf_text
from app.documents.readers.sniff import decoded, sniff
from app.documents.readers.spreadsheet import sheets_text

_MOST_NESTED_MAILS = 3


@dataclass(frozen=True)
class Reading:
    """The kind of a file, detected from its bytes, and the text of each page.

    `note` says what could not be read, `properties` what the file says of itself.
    """

    kind: str
    pages: list[str]
    note: str | None = None
    properties: Properties = NOTHING


def read(data: bytes, name: str, nested: int = 0) -> Reading:
    """Read a file. Raises UnreadableError with a message for the user."""
    reading = _reading(sniff(data, name), data, name, nested)
    if reading.kind != "pdf" and not any(page.strip() for page in reading.pages):
        raise UnreadableError(NO_TEXT)
    return reading


def _reading(kind: str, data: bytes, name: str, nested: int) -> Reading:
    def attached(inner: bytes, title: str) -> str:
        if nested == _MOST_NESTED_MAILS:
            raise UnreadableError(NESTED)
        return "\n\n".join(read(inner, title, nested + 1).pages)

    match kind:
        case "pdf":
            return Reading(kind, *pdf_pages(data))
        case "email":
            text, properties = mail_text(data, attached)
            return Reading(kind, [text], properties=properties)
        case "mbox":
            text, note = mailbox_text(data, attached)
            return Reading(kind, [text], note)
        case "markdown":
            text, properties = without_front_matter(decoded(data))
            return Reading(kind, markdown_text(text).split(PAGE_BREAK), properties=properties)
    return Reading(kind, _pages(kind, data))


def _pages(kind: str, data: bytes) -> list[str]:
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
        case "csv":
            rows = tables.rows(decoded(data), named=True) or []
            return ["\n".join(tables.table_lines(rows))]
        case "json":
            return ["\n".join(tables.json_lines(tables.json_value(decoded(data))))]
    return decoded(data).split(PAGE_BREAK)
