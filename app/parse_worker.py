"""Turns one uploaded file into text. Runs as a process of its own, started by app.parsing.

Parsers of files that strangers wrote are where memory and time go astray, so this process limits
both for itself before it opens the file, and imports nothing of the service.

    python parse_worker.py FILE NAME OUT CPU_SECONDS MEMORY_BYTES

writes the pages, joined by form feeds, to OUT as UTF-8, and one JSON object to standard output:
{"kind": "text" | "markdown" | "pdf"} or {"error": message}.
"""

from __future__ import annotations

import codecs
import json
import re
import resource
import sys
from pathlib import Path
from typing import Any

PAGE_BREAK = "\f"
OUTPUT_BYTES = 256 << 20
_PDF_PASSWORD_ERROR = 4

# What people upload by mistake, told by its first bytes.
_OTHER_KINDS = (
    (b"PK\x03\x04", "a ZIP or Office file"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"{\\rtf", "an RTF file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"\x1f\x8b", "a gzip file"),
    (b"SQLite format 3\0", "a database"),
)
_TAKEN = "Text, Markdown and PDF are taken."
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff]")


class UnreadableError(Exception):
    """The file cannot be taken; the message says why."""


def parse(path: Path, name: str) -> tuple[str, list[str]]:
    """The file's kind, told by its bytes and not by its name, and the text of each page."""
    with path.open("rb") as file:
        head = file.read(1024)
    suffix = Path(name).suffix.lower()
    if b"%PDF-" in head:
        return "pdf", _pdf_pages(path)
    for magic, what in _OTHER_KINDS:
        if head.startswith(magic):
            raise UnreadableError(f"The file is {what}. {_TAKEN}")
    if suffix == ".pdf":
        raise UnreadableError("The file is named .pdf but is not a PDF.")
    kind = "markdown" if suffix in {".md", ".markdown"} else "text"
    return kind, _text_pages(path)


def _text_pages(path: Path) -> list[str]:
    data = path.read_bytes()
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"The file is not text in UTF-8 (byte {error.start}). Save it as UTF-8. {_TAKEN}"
        ) from None
    if _BINARY.search(text):
        raise UnreadableError(f"The file is binary data, not text. {_TAKEN}")
    text = _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        raise UnreadableError("The file has no text in it.")
    return text.split(PAGE_BREAK)


def _pdf_pages(path: Path) -> list[str]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
        pages = [_tidy(_page_text(page)) for page in document]
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PDF_PASSWORD_ERROR:
            raise UnreadableError("The PDF is encrypted. Save it without a password.") from None
        raise UnreadableError("The PDF is damaged and cannot be read.") from None
    if not any(page.strip() for page in pages):
        raise UnreadableError(
            "The PDF has no text in it, as when it was scanned. Run text recognition (OCR) first."
        )
    return pages


def _page_text(page: Any) -> str:
    text_page = page.get_textpage()
    text: str = text_page.get_text_range()
    text_page.close()
    page.close()
    return text


def _tidy(page: str) -> str:
    """The page's text with its lines joined where only the page's width broke them."""
    page = page.replace("\r\n", "\n").replace("\r", "\n").replace(PAGE_BREAK, "\n")
    page = re.sub(r"[\ufffe\u00ad]\n?", "", page)  # a word divided at the end of a line
    page = _NOT_TEXT.sub("", page).encode("utf-8", "ignore").decode("utf-8")
    lines = [line.strip() for line in page.split("\n")]
    full = 0.7 * max(map(len, lines))
    pieces = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        runs_on = len(line) >= full and not line.endswith((".", "!", "?", ":")) and following
        pieces += [line, " " if runs_on else "\n"]
    return "".join(pieces)


def main() -> None:
    """Parse under limits of processor time, address space and output."""
    path, name, out, cpu_seconds, memory_bytes = sys.argv[1:]
    for limit, value in (
        (resource.RLIMIT_CPU, int(cpu_seconds)),
        (resource.RLIMIT_AS, int(memory_bytes)),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    answer: dict[str, Any]
    try:
        kind, pages = parse(Path(path), name)
        Path(out).write_text(PAGE_BREAK.join(pages), encoding="utf-8", newline="")
        answer = {"kind": kind}
    except UnreadableError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "The file takes too much memory to read. Split it into smaller ones."}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
