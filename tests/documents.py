"""Files of every kind to upload, made on the spot: whole ones, and ones that mean harm."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook  # type: ignore[import-untyped]

from app.documents.parsing import Batch, Looked, Parsing
from app.documents.readers.sniff import FileKind
from dragon.errors import DocumentError
from harness.pdf import pdf

SHARED: list[Parsing] = []

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)


def archive(entries: dict[str, bytes | str]) -> bytes:
    """A ZIP file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return out.getvalue()


def docx(body: str, **others: str) -> bytes:
    """A Word document with this XML in its body; `others` are further parts, by name."""
    parts = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
    }
    for name, content in others.items():
        parts[f"word/{name}.xml"] = f"<w:{name} {_W}>{content}</w:{name}>"
    return archive({**parts})


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of a Word document, in two runs."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    half = len(text) // 2
    runs = "".join(
        f'<w:r><w:t xml:space="preserve">{part}</w:t></w:r>' for part in (text[:half], text[half:])
    )
    return f"<w:p>{properties}{runs}</w:p>"


def word_table(*rows: tuple[str, ...]) -> str:
    """A table of a Word document."""
    cells = [["<w:tc>" + paragraph(cell) + "</w:tc>" for cell in row] for row in rows]
    return "<w:tbl>" + "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in cells) + "</w:tbl>"


def xlsx(sheets: dict[str, list[list[Any]]]) -> bytes:
    """A workbook as spreadsheet programs write it."""
    book = Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def styled_xlsx(names: list[str], formats: list[str], values: list[Any]) -> bytes:
    """A workbook of one row of formatted values, and a formula that has not been computed."""
    book = Workbook()
    sheet = book.worksheets[0]
    sheet.append(names)
    sheet.append(values)
    for cell, number_format in zip(sheet[2], formats, strict=True):
        cell.number_format = number_format
    sheet.cell(2, len(names) + 1).value = "=A2*2"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def epub(*chapters: str, encrypted: bool = False) -> bytes:
    """A book of XHTML bodies, stored in another order than they are read in."""
    numbers = range(len(chapters))
    manifest = "".join(
        f'<item id="c{n}" href="c%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in reversed(numbers)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    package = f"<package><manifest>{manifest}</manifest><spine>{spine}</spine></package>"
    entries: dict[str, bytes | str] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": _CONTAINER,
        "OEBPS/book.opf": package,
    }
    for number in reversed(numbers):
        entries[f"OEBPS/c {number}.xhtml"] = (
            '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>'
            f"<body>{chapters[number]}</body></html>"
        )
    if encrypted:
        entries["META-INF/encryption.xml"] = (
            '<encryption><CipherReference URI="OEBPS/c%200.xhtml"/></encryption>'
        )
    return archive(entries)


def email(text: str, attachments: dict[str, bytes]) -> bytes:
    """A message with a plain and an HTML version of its text."""
    message = EmailMessage()
    message["From"], message["To"] = "Anna Grünwald <anna@example.org>", "bob@example.org"
    message["Subject"] = "The keys of the hut"
    message["Date"] = "Mon, 02 Jun 2025 10:00:00 +0200"
    message.set_content(text)
    message.add_alternative(f"<p>{text}</p><script>bad()</script>", subtype="html")
    for name, content in attachments.items():
        message.add_attachment(
            content, maintype="application", subtype="octet-stream", filename=name
        )
    return message.as_bytes()


def pdf_bomb(unpacked: int) -> bytes:
    """A small PDF whose one page's content unpacks to so many bytes."""
    packer = zlib.compressobj(9)
    line = b"(" + b"word " * 200 + b") Tj T*\n"
    head = packer.compress(b"BT /F1 11 Tf 14 TL 50 780 Td ")
    parts = [head, *(packer.compress(line * 1000) for _ in range(unpacked // (len(line) * 1000)))]
    stream = b"".join([*parts, packer.compress(b"ET"), packer.flush()])
    whole = pdf("placeholder")
    start = whole.index(b"<< /Length")
    end = whole.index(b"endstream", start)
    dictionary = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(stream)
    return whole[:start] + dictionary + stream + b"\n" + whole[end:]


@asynccontextmanager
async def one_parsing() -> AsyncIterator[None]:
    """Within, on one event loop, every `parse` is of one `Parsing`: a worker starts slowly."""
    SHARED.append(Parsing())
    yield
    await SHARED.pop().close()


async def parse(
    source: Path,
    name: str,
    out: Path,
    *take: Callable[[Batch | Looked], Awaitable[None]],
    **limits: int,
) -> tuple[FileKind, str | None]:
    """Parse one file, as `Parsing` does."""
    parsing = SHARED[-1] if SHARED else Parsing()
    try:
        with pytest.MonkeyPatch.context() as limited:
            for limit, value in limits.items():
                limited.setattr(f"app.documents.parsing.{limit}", value)
            read = await parsing.parse(source, name, out, *take)
        return read.kind, read.note.localizable if read.note else None
    finally:
        if parsing not in SHARED:
            await parsing.close()


async def refused(directory: Path, name: str, content: bytes, message: str, **limits: int) -> None:
    """A file is not read, for a reason that matches, and nothing of its text is left."""
    (directory / "in").write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        await parse(directory / "in", name, directory / "out", **limits)
    assert os.listdir(directory) == ["in"]


async def text_of(directory: Path, name: str, content: bytes) -> tuple[FileKind, str]:
    """The kind of a file and its text, as `Parsing` finds them."""
    source, out = directory / "in", directory / "out"
    source.write_bytes(content)
    kind, _ = await parse(source, name, out)
    return kind, out.read_text()
