"""Text recognition (OCR) in images by Tesseract, where it is installed; also within the cell."""

from __future__ import annotations

import csv
import ctypes
import io
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from app.documents.readers.common import (
    NO_TEXT,
    FileText,
    UnreadableError,
    damaged,
    too_many_pages,
    unreadable,
)
from app.documents.readers.paragraphs import unwrapped
from dragon.localizable import Localizable, joined, localizable

NEEDED = localizable(
    "file.ocr.needed",
    "Reading that takes text recognition (OCR): install Tesseract on this machine "
    "(`apt install tesseract-ocr`, `brew install tesseract`), then retry.",
)
_UNCERTAIN = 90  # percent; clean print has 94 to 97, and at 86 words are wrong
DPI = 300
MOST_PIXELS = 25_000_000  # of a page: A4 at 300 dots an inch has 9 million

_PAGE_SECONDS = 40  # of processor time
_SECONDS = 400  # of a clock, for all pages of a file
_NO_LANGUAGES = {"osd", "equ", "snum"}
_MOST_LANGUAGES = 4  # each takes more time, and makes errors likelier
_NOISE = 40  # percent, below which a block is a picture and no text
_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG", "MPO"), "tiff": ("TIFF",), "webp": ("WEBP",)}
_LARGEST = 100_000_000  # pixels
_MOST_PAGES = 1000
_SMALL = 1500  # pixels: the longer side of a picture whose letters are worth enlarging
_TOO_LARGE = localizable(
    "file.megapixels",
    "The image has more than {count} megapixels. Make it smaller.",
    count=_LARGEST // 1_000_000,
)
_PR_SET_PDEATHSIG = 1
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
class Recognised:
    """The text of a page, and how certain it is: 0 to 100, weighted by characters."""

    text: str
    confidence: int


@dataclass(frozen=True)
class Tesseract:
    """The program and the folders it reads; `tell` is called with a page's number, of how many."""

    program: Path
    folders: Sequence[Path]
    deadline: float  # of time.monotonic()
    tell: Callable[[int, int], None]

    def read(self, image: Any, page_of: tuple[int, int]) -> Recognised | None:
        """The text of a grayscale Pillow image; None if recognition failed or took too long."""
        self.tell(*page_of)
        if time.monotonic() > self.deadline:
            return None
        page = io.BytesIO()
        image.save(page, "PPM")
        languages = "+".join(self.languages[:_MOST_LANGUAGES])
        options = ("-l", languages, "--dpi", str(DPI), "-c", "tessedit_create_tsv=1")
        done = self._run("stdin", "stdout", *options, given=page.getvalue())
        if done.returncode:
            return None
        return _recognised(done.stdout.decode("utf-8", "replace"))

    @cached_property
    def languages(self) -> Sequence[str]:
        """The installed languages, English first. Raises UnreadableError if there is none."""
        listed = self._run("--list-langs").stdout.decode("utf-8", "replace").splitlines()[1:]
        found = sorted({*listed} - _NO_LANGUAGES, key=lambda each: (each != "eng", each))
        if not found:
            raise unreadable(
                "file.ocr.language",
                "Tesseract is installed without any language. Install one, such as "
                "`tesseract-ocr-eng`, then retry.",
            )
        return found

    def _run(self, *options: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        environment = {"OMP_THREAD_LIMIT": "1"}  # more threads take more time in all
        if prefix := os.environ.get("TESSDATA_PREFIX"):
            environment["TESSDATA_PREFIX"] = prefix
        command: Sequence[str | Path] = (self.program, *options)
        return subprocess.run(
            command, input=given, capture_output=True, env=environment, preexec_fn=_limit
        )


def installed(tell: Callable[[int, int], None] = lambda page, of: None) -> Tesseract | None:
    """Tesseract as it is found on the path; None if it is not there."""
    if (path := shutil.which("tesseract")) is None:
        return None
    program = Path(path).resolve()
    prefix = program.parent.parent
    folders = [prefix / "share/tesseract-ocr", prefix / "share/tessdata", prefix / "lib"]
    if given := os.environ.get("TESSDATA_PREFIX"):
        folders.append(Path(given))
    return Tesseract(program, folders, time.monotonic() + _SECONDS, tell)


def _limit() -> None:
    """Limit the time that a page takes, and have it end with the parser."""
    resource.setrlimit(resource.RLIMIT_CPU, (_PAGE_SECONDS, _PAGE_SECONDS))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _recognised(table: str) -> Recognised:
    """The text of Tesseract's table of words, paragraph by paragraph, without noise."""
    reader = csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = [row for row in reader if row["level"] == "5" and (row["text"] or "").strip()]
    blocks = [list(block) for _, block in groupby(words, lambda word: word["block_num"])]
    kept = [word for block in blocks if _certainty(block) >= _NOISE for word in block]
    paragraphs = []
    for _, paragraph in groupby(kept, lambda word: (word["block_num"], word["par_num"])):
        lines = groupby(paragraph, lambda word: word["line_num"])
        paragraphs.append("\n".join(" ".join(word["text"] for word in line) for _, line in lines))
    return Recognised(unwrapped("\n\n".join(paragraphs)).strip(), round(_certainty(kept)))


def _certainty(words: Sequence[dict[str, str]]) -> float:
    weighted = sum(float(word["conf"]) * len(word["text"]) for word in words)
    return weighted / max(1, sum(len(word["text"]) for word in words))


def looked_at(
    pages: Sequence[Recognised | str | None], ocr: Tesseract | None, stamped: int = 0
) -> FileText:
    """The text of pages that may be pictures: None is a page not read, and `stamped` more are."""
    texts = [page.text if isinstance(page, Recognised) else page or "" for page in pages]
    confidence = {
        n: page.confidence
        for n, page in enumerate(pages, 1)
        if isinstance(page, Recognised) and page.text
    }
    unread = stamped + sum(page is None for page in pages)
    if not any(text.strip() for text in texts):
        raise UnreadableError((_FAILED if ocr else _PICTURES) if unread else NO_TEXT)
    notes, count = list[Localizable](), len(pages)
    if unread and ocr:
        failed = (
            "{unread} of {count} pages were not read: text recognition (OCR) failed on them, or "
            "took too long."
        )
        notes.append(localizable("file.note.left_out", failed, unread=unread, count=count))
    elif unread:
        scanned = "{unread} of {count} pages have no text, as when they were scanned. {needed}"
        notes.append(
            localizable("file.note.scanned", scanned, unread=unread, count=count, needed=NEEDED)
        )
    unsure = [
        localizable("file.note.page", "page {page} ({confidence} %)", page=n, confidence=percent)
        for n, percent in confidence.items()
        if percent < _UNCERTAIN
    ]
    if unsure:
        more = [Localizable("...")] if len(unsure) > _MOST_NAMED else []
        listed = joined([*unsure[:_MOST_NAMED], *more], ", ")
        uncertain = "Text recognition (OCR) was uncertain: {pages}"
        notes.append(localizable("file.note.uncertain", uncertain, pages=listed))
    return FileText(texts, joined(notes, " ") if notes else None, confidence=confidence)


def image_text(data: bytes, kind: str, ocr: Tesseract | None) -> FileText:
    """The text on the pages of an image. Raises UnreadableError."""
    from PIL import Image, ImageSequence

    if ocr is None:
        return looked_at([None], ocr)
    try:
        opened = Image.open(io.BytesIO(data), formats=_FORMATS[kind])
        frames = ImageSequence.Iterator(opened) if kind == "tiff" else [opened]
        count = getattr(opened, "n_frames", 1) if kind == "tiff" else 1
        pages = []
        for number, frame in enumerate(frames):
            if number == _MOST_PAGES:
                raise too_many_pages(_MOST_PAGES)
            pages.append(ocr.read(_page(frame), (number + 1, count)))
    except Image.DecompressionBombError:
        raise UnreadableError(_TOO_LARGE) from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error):
        raise UnreadableError(damaged(f".{kind}")) from None
    return looked_at(pages, ocr)


def _page(image: Any) -> Any:
    """The image turned upright, in gray, at a size that is good to read."""
    from PIL import Image, ImageOps

    if image.width * image.height > _LARGEST:
        raise UnreadableError(_TOO_LARGE)
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        seen = Image.new("RGBA", image.size, "white")
        seen.alpha_composite(image.convert("RGBA"))
        image = seen
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda value: value * (1 / 256))
    image = image.convert("L")
    fitting = (MOST_PIXELS / (image.width * image.height)) ** 0.5
    scale = min(2.0 if max(image.size) < _SMALL else 1.0, fitting)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image if scale == 1.0 else image.resize(size)
