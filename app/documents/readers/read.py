"""Reads a file of any kind as the text of its pages; mail with its attachments."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from email import policy
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import Any

from app.documents.readers.archive import Archive
from app.documents.readers.common import (
    LONGEST_PROPERTY,
    NESTED,
    NO_TEXT,
    Decoded,
    FileText,
    Properties,
    UnreadableError,
    decoded,
    one_line,
    tidy,
)
from app.documents.readers.data import csv_rows, json_lines, json_value, recorded
from app.documents.readers.grid import table_lines
from app.documents.readers.markup import epub_text, html_text, markdown_text, without_front_matter
from app.documents.readers.ocr import Tesseract, image_text
from app.documents.readers.office import docx_pages, odp_slides, odt_pages, pptx_slides, rtf_text
from app.documents.readers.paragraphs import paragraphs
from app.documents.readers.pdf import pdf_text
from app.documents.readers.sniff import FileKind, readable, sniff
from app.documents.readers.spreadsheet import ods_text, xlsx_text
from dragon.localizable import localizable
from dragon.retrieval.chunking import PAGE_BREAK

_PACKED = {"docx": docx_pages, "pptx": pptx_slides, "odt": odt_pages, "odp": odp_slides}
_MOST_NESTED_MAILS = 3


def read(
    data: bytes, name: str, ocr: Tesseract | None = None, nested: int = 0
) -> tuple[FileKind, FileText]:
    """The kind of a file, and its text. Raises UnreadableError with a message for the user."""

    def attached(inner: bytes, title: str) -> str:
        if nested == _MOST_NESTED_MAILS:
            raise UnreadableError(NESTED)
        _, reading = read(inner, title, ocr, nested + 1)
        notes = [reading.note] if reading.note and reading.confidence else []
        return "\n\n".join([*notes, *reading.pages])

    kind = sniff(data, name)
    match kind:
        case "email":
            reading = _mail(data, attached)[0]
        case "mbox":
            reading = _mailbox_text(data, attached)
        case "pdf":
            reading = pdf_text(data, ocr)
        case "png" | "jpeg" | "tiff" | "webp":
            reading = image_text(data, kind, ocr)
        case "epub":
            reading = epub_text(Archive(data, ".epub"))
        case "xlsx":
            reading = xlsx_text(data)
        case "ods":
            reading = ods_text(Archive(data, ".ods"))
        case "docx" | "pptx" | "odt" | "odp":
            reading = FileText(_PACKED[kind](Archive(data, f".{kind}")))
        case "rtf":
            reading = FileText([rtf_text(data)])
        case "html":
            reading = FileText([html_text(data)])
        case _:
            reading = _plain_text(kind, readable(data))
    if not any(page.strip() for page in reading.pages):
        raise UnreadableError(NO_TEXT)
    return kind, reading


def _plain_text(kind: FileKind, whole: Decoded) -> FileText:
    text, properties = whole.text, Properties()
    if kind is FileKind.MARKDOWN:
        text, properties = without_front_matter(text)
        text = markdown_text(text)
    if kind is FileKind.CSV:
        pages = ["\n".join(table_lines(csv_rows(text, named=True) or []))]
    elif kind is FileKind.JSON:
        pages = ["\n".join(json_lines(json_value(text)))]
    elif (entries := recorded(text)) is not None:
        pages = [entries]
    else:
        pages = [paragraphs(page) for page in text.split(PAGE_BREAK)]
    return FileText(pages, whole.note, properties)


# Mail.


_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# The line before each message of a mailbox, which puts > before such lines of text.
_SEPARATOR = re.compile(rb"(?:\A|(?<=\n)\r?\n)From [^\n]*\d\d:\d\d[^\n]*\n")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)

_SIGNATURES = {f"application/{kind}-signature" for kind in ("pgp", "pkcs7", "x-pkcs7")}
_ATTACHED = "Attachment"

_Read = Callable[[bytes, str], str]


def _mail(data: bytes, read: _Read) -> tuple[FileText, str]:
    """Headers, body and attachments, which `read` turns into text; and who sent it."""
    message = BytesParser(policy=policy.default).parsebytes(data)
    try:
        text = tidy("\n\n".join(_parts(message, read)))
    except RecursionError:
        raise UnreadableError(NESTED) from None
    sent = None
    with suppress(ValueError):
        sent = parsedate_to_datetime(_header(message, "Date")).isoformat()
    properties = Properties(_header(message, "Subject")[:LONGEST_PROPERTY] or None, sent)
    return FileText([text], properties=properties), _header(message, "From")


def _mailbox_text(data: bytes, read: _Read) -> FileText:
    """The messages of a mailbox, each under a heading, and a note if some cannot be read."""
    messages = [_QUOTED.sub(rb"\1", each) for each in _SEPARATOR.split(data) if each.strip()]
    texts, unread = [], 0
    for each in messages:
        try:
            mail, sender = _mail(each, read)
        except Exception:  # the standard library's parser has many ways to fail
            unread += 1
            continue
        title = mail.properties.title or "Without a subject"
        heading = ", ".join(filter(None, (title, sender, (mail.properties.date or "")[:10])))
        texts.append(f"# {heading}\n\n{mail.pages[0]}")
    english = "{unread} of {count} messages cannot be read."
    note = localizable("file.note.messages", english, unread=unread, count=len(messages))
    return FileText(["\n\n".join(texts)], note if unread else None)


def _header(message: Any, name: str) -> str:
    return one_line(str(message.get(name, "")))


def _parts(message: Any, read: _Read) -> list[str]:
    headers = [(name, _header(message, name)) for name in _SHOWN]
    shown = "\n".join(f"{name}: {value}" for name, value in headers if value)
    return [shown, *_said(message, read)]


def _said(part: Any, read: _Read) -> list[str]:
    """The texts of a part; of alternatives the plainest with text, and the attachments of all."""
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return [text for inner in part.iter_parts() for text in _parts(inner, read)]
    if kind == "multipart/alternative":
        bodies: list[str] = []
        attached: list[str] = []
        for each in part.iter_parts():
            text = [said for said in _said(each, read) if said.strip()]
            attached += [said for said in text if said.startswith(_ATTACHED)]
            bodies = bodies or [said for said in text if not said.startswith(_ATTACHED)]
        return [*bodies, *dict.fromkeys(attached)]
    if part.is_multipart():
        return [text for inner in part.iter_parts() for text in _said(inner, read)]
    if kind in _SIGNATURES:
        return []
    named = part.get_filename() or part.get_content_disposition() == "attachment"
    data = part.get_payload(decode=True)
    content = data if isinstance(data, bytes) else b""
    if named or part.get_content_maintype() != "text":
        name = one_line(part.get_filename() or "without a name")
        try:
            return [f"{_ATTACHED}: {name}\n\n{read(content, name)}"]
        except UnreadableError:
            return [f"{_ATTACHED} (not read): {name}"]
    whole = decoded(content, part.get_content_charset() or "")
    body = whole.text if whole else ""
    if kind == "text/html":
        with suppress(UnreadableError):  # there is nothing in it
            return [html_text(body.encode())]
        return []
    return [paragraphs("\n".join(map(str.rstrip, body.split("\n"))))]
