"""From a file of any kind taken to the text of its pages."""

from __future__ import annotations

from app.readers import records
from app.readers.archive import Archive
from app.readers.common import NESTED, NO_TEXT, PAGE_BREAK, UnreadableError
from app.readers.epub import epub_chapters
from app.readers.mail import mail_text
from app.readers.markup import html_text
from app.readers.office import docx_text
from app.readers.pdf import pdf_pages
from app.readers.sniff import decoded, sniff

_MOST_NESTED_MAILS = 3


def read(data: bytes, name: str, nested: int = 0) -> tuple[str, list[str]]:
    """The file's kind, told by its bytes and not by its name, and the text of each page.

    Raises UnreadableError with a message for people.
    """
    kind = sniff(data, name)
    pages = _pages(kind, data, name, nested)
    if not any(page.strip() for page in pages):
        raise UnreadableError(NO_TEXT)
    return kind, pages


def _pages(kind: str, data: bytes, name: str, nested: int) -> list[str]:
    match kind:
        case "pdf":
            return pdf_pages(data)
        case "epub":
            return epub_chapters(Archive(data))
        case "docx":
            return [docx_text(Archive(data))]
        case "html":
            return [html_text(data)]
        case "email":
            return [mail_text(data, lambda inner, title: _attached(inner, title, nested))]
        case "csv":
            rows = records.rows(decoded(data), named=True) or []
            return ["\n".join(records.table_lines(rows))]
        case "json":
            return ["\n".join(records.json_lines(records.json_value(decoded(data))))]
    return decoded(data).split(PAGE_BREAK)


def _attached(data: bytes, name: str, nested: int) -> str:
    if nested == _MOST_NESTED_MAILS:
        raise UnreadableError(NESTED)
    _, pages = read(data, name, nested + 1)
    return "\n\n".join(pages)
