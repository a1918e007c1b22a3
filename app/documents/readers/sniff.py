"""Detects the kind of a file from its bytes; its name decides only where they are ambiguous."""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Self

from app.documents.readers.archive import DOCX_TEXT, PPTX_SLIDES, XLSX_BOOK, Archive
from app.documents.readers.common import (
    ENCRYPTED,
    Decoded,
    UnreadableError,
    damaged,
    decoded,
    unreadable,
)
from app.documents.readers.data import csv_rows, json_value
from dragon.localizable import Localizable, localizable

_OPENDOCUMENT_MANIFEST = "META-INF/manifest.xml"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?>(?><!--.*?-->)\s*)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<[a-z][a-z0-9]*[\s>]", re.IGNORECASE)
_HEADER = re.compile(rb"([!-9;-~]+):(?:[ \t]|\r?$)")
_HEADERS_BYTES = 65_536
_SENT = {b"date", b"message-id", b"received", b"mime-version"}


_OFFICE = "application/vnd.openxmlformats-officedocument"
_OPEN = "application/vnd.oasis.opendocument"


class FileKind(StrEnum):
    """The type of a file, with its Content-Type and its suffixes, the usual one first."""

    media_type: str
    suffixes: list[str]

    TEXT = "text", "text/plain", ".txt"
    MARKDOWN = "markdown", "text/markdown", ".md .markdown"
    PDF = "pdf", "application/pdf", ".pdf"
    DOCX = "docx", f"{_OFFICE}.wordprocessingml.document", ".docx"
    XLSX = "xlsx", f"{_OFFICE}.spreadsheetml.sheet", ".xlsx"
    PPTX = "pptx", f"{_OFFICE}.presentationml.presentation", ".pptx"
    ODT = "odt", f"{_OPEN}.text", ".odt"
    ODS = "ods", f"{_OPEN}.spreadsheet", ".ods"
    ODP = "odp", f"{_OPEN}.presentation", ".odp"
    RTF = "rtf", "application/rtf", ".rtf"
    HTML = "html", "text/html", ".html .htm .xhtml"
    CSV = "csv", "text/csv", ".csv .tsv"
    JSON = "json", "application/json", ".json"
    EPUB = "epub", "application/epub+zip", ".epub"
    EMAIL = "email", "message/rfc822", ".eml"
    MBOX = "mbox", "application/mbox", ".mbox"
    PNG = "png", "image/png", ".png"
    JPEG = "jpeg", "image/jpeg", ".jpg .jpeg"
    TIFF = "tiff", "image/tiff", ".tif .tiff"
    WEBP = "webp", "image/webp", ".webp"

    def __new__(cls, name: str, media_type: str = "", suffixes: str = "") -> Self:
        """A member; its value is the name."""
        self = str.__new__(cls, name)
        self._value_, self.media_type, self.suffixes = name, media_type, suffixes.split()
        return self

    @property
    def paged(self) -> bool:
        """Whether form feeds in its text separate numbered pages."""
        return self in (FileKind.PDF, FileKind.PPTX, FileKind.ODP, FileKind.TIFF)

    @property
    def tabular(self) -> bool:
        """Whether each line of its text is a self-contained record."""
        return self in (FileKind.CSV, FileKind.JSON, FileKind.XLSX, FileKind.ODS)

    @property
    def has_tables(self) -> bool:
        """Whether there are tables or lists in its text that can be computed from."""
        return self not in (FileKind.PNG, FileKind.JPEG, FileKind.TIFF, FileKind.WEBP)


_PROGRAM = localizable("file.kind.program", "a program")
# Kinds by their first bytes; those that cannot be read are often uploaded by mistake.
_STARTS: dict[bytes, FileKind | Localizable] = {
    b"{\\rtf": FileKind.RTF,
    b"\x89PNG": FileKind.PNG,
    b"\xff\xd8\xff": FileKind.JPEG,
    b"II*\0": FileKind.TIFF,
    b"MM\0*": FileKind.TIFF,
    b"\xd0\xcf\x11\xe0": localizable("file.kind.office", "an old Office file"),
    b"GIF8": localizable("file.kind.gif", "a GIF image"),
    b"\x7fELF": _PROGRAM,
    b"MZ\x90": _PROGRAM,
    b"\x1f\x8b": localizable("file.kind.gzip", "a gzip file"),
    b"SQLite format 3\0": localizable("file.kind.database", "a database"),
}
# Kinds of archives, by an entry that only they have, and by the content of "mimetype".
_PARTS = {DOCX_TEXT: FileKind.DOCX, XLSX_BOOK: FileKind.XLSX, PPTX_SLIDES: FileKind.PPTX}
_DECLARED = {
    kind.media_type: kind for kind in (FileKind.EPUB, FileKind.ODT, FileKind.ODS, FileKind.ODP)
}
_PACKED = {*_PARTS.values(), *_DECLARED.values()}

ACCEPTED = [suffix for kind in FileKind for suffix in kind.suffixes] + ["text/*"]
"""The suffixes and media types that a file dialog offers, as in HTML's `accept`."""

TAKEN = localizable(
    "file.taken",
    "Text can be read, and files of these types: {types}.",
    types=", ".join(kind.suffixes[0][1:].upper() for kind in FileKind if kind is not FileKind.TEXT),
)


def telling_suffix(name: str) -> str:
    """The suffix of a name if it helps to tell the kind of a text, such as ".md"; else ""."""
    suffix = Path(name).suffix.lower()
    telling = (FileKind.MARKDOWN, FileKind.CSV, FileKind.HTML)
    return suffix if any(suffix in kind.suffixes for kind in telling) else ""


def sniff(data: bytes, name: str) -> FileKind:
    """The kind of a file. Raises UnreadableError for one that cannot be read."""
    suffix = Path(name).suffix.lower()
    if b"%PDF-" in data[:1024]:
        return FileKind.PDF
    packed = suffix if suffix[1:] in _PACKED else ""
    if data.startswith(b"PK\x03\x04"):
        return _archive_kind(Archive(data, packed))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return FileKind.WEBP
    if data.startswith(b"\xd0\xcf\x11\xe0") and _ENCRYPTED_OFFICE in data:
        raise UnreadableError(ENCRYPTED)
    for magic, kind in _STARTS.items():
        if data.startswith(magic):
            if isinstance(kind, FileKind):
                return kind
            raise _other(kind)
    if suffix == ".pdf":
        raise unreadable(
            "file.not_pdf", "The file is named .pdf but is not a PDF. Save it as a PDF again."
        )
    if _is_mail(data):
        return FileKind.EMAIL
    if data.startswith(b"From ") and _is_mail(data[:_HEADERS_BYTES].partition(b"\n")[2]):
        return FileKind.MBOX
    if packed and decoded(data) is None:
        raise UnreadableError(damaged(packed))
    text = readable(data).text
    start, html = text[:8192], FileKind.HTML
    if _HTML.match(start) or (suffix in html.suffixes and _TAG.search(start)):
        return html
    if suffix in FileKind.MARKDOWN.suffixes:
        return FileKind.MARKDOWN
    if text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError):
            json_value(text)
            return FileKind.JSON
    table = csv_rows(text, named=suffix in FileKind.CSV.suffixes)
    return FileKind.TEXT if table is None else FileKind.CSV


def readable(data: bytes) -> Decoded:
    """The text of a plain-text file. Raises UnreadableError."""
    if (text := decoded(data)) is None:
        raise _other(localizable("file.kind.binary", "binary data, not text"))
    return text


def _archive_kind(archive: Archive) -> FileKind:
    for name, kind in _PARTS.items():
        if name in archive.names:
            return kind
    if "mimetype" in archive.names:
        declared = archive.read("mimetype").strip().removesuffix(b"-template")
        if opened := _DECLARED.get(declared.decode("latin-1")):
            manifest = b"" if opened is FileKind.EPUB else archive.read(_OPENDOCUMENT_MANIFEST)
            if b":encryption-data" in manifest:
                raise UnreadableError(ENCRYPTED)
            return opened
    if "xl/workbook.bin" in archive.names:
        raise _other(localizable("file.kind.xlsb", "a binary Excel file"))
    raise _other(localizable("file.kind.zip", "a ZIP or Office file of another kind"))


def _other(what: Localizable) -> UnreadableError:
    return unreadable("file.other", "The file is {what}. {taken}", what=what, taken=TAKEN)


def _is_mail(data: bytes) -> bool:
    names = set()
    for line in data[:_HEADERS_BYTES].split(b"\n"):
        if not line.strip():
            break
        if line[:1] in b" \t":
            continue
        if not (header := _HEADER.match(line)):
            return False
        names.add(header[1].lower())
    return b"from" in names and (bool(names & _SENT) or {b"to", b"subject"} <= names)
