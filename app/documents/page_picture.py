"""A page of a PDF as it looks, with a passage marked: drawn in a process that is shut in.

    PASSAGE=text python page_picture.py PAGE

draws the page (from 1) of the PDF that is its standard input. It writes a line that says where the
first mark is, as a fraction of the height, then the page as PNG. The process is confined as those
that parse (`parse_worker`).
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_CPU_SECONDS, _CLOCK_SECONDS = 20, 60
_MEMORY_BYTES = 1 << 30
_SCALE = 2.0  # pixels a point: 144 an inch
_MOST_PIXELS = 6_000_000  # of large plans
_PASSAGE = "PASSAGE"
_TELLING = 12  # letters of a line that are likely to stand only once
_MARKED = (255, 222, 89)


@dataclass(frozen=True)
class PagePicture:
    """A page as PNG, and where the first mark on it is, from 0 at its top to 1; None if nowhere."""

    png: bytes
    mark: float | None


async def drawn(pdf: BinaryIO, page: int, passage: str) -> PagePicture | None:
    """The page, None if it cannot be drawn. `pdf` is an open file."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", __file__, str(page)),
        stdin=pdf,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={_PASSAGE: passage},  # others on this machine may read its arguments
    )
    try:
        async with asyncio.timeout(_CLOCK_SECONDS):
            written, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        return None
    where, _, png = written.partition(b"\n")
    return PagePicture(png, float(where) if where else None)


def main() -> None:
    """Draw what is asked for."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import pypdfium2
    from PIL import Image, ImageChops, ImageDraw

    from app.documents.cell import confine, limit

    limit(_CPU_SECONDS, _MEMORY_BYTES)
    Image.preinit()
    confine()
    document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    document.init_forms()
    page = document[int(sys.argv[1]) - 1]
    width, height = page.get_size()
    scale = min(_SCALE, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale)
    picture = bitmap.to_pil().convert("RGB")
    marks = Image.new("RGB", picture.size, "white")
    brush = ImageDraw.Draw(marks)
    place = bitmap.get_posconv(page)
    tops = []
    for left, bottom, right, top in _boxes(page, os.environ[_PASSAGE]):
        (a, b), (c, d) = place.to_bitmap(left, top), place.to_bitmap(right, bottom)
        box = min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1  # it may be turned
        brush.rectangle(box, fill=_MARKED)
        tops.append(box[1] / picture.height)
    written = io.BytesIO()
    ImageChops.multiply(picture, marks).save(written, "PNG")
    where = f"{min(tops):.4f}" if tops else ""
    sys.stdout.buffer.write(where.encode() + b"\n" + written.getvalue())


def _boxes(page: Any, passage: str) -> Iterator[tuple[float, float, float, float]]:
    """Where the passage stands, whole or, where it runs through columns, line by line."""
    text_page = page.get_textpage()
    letters = [*_letters(text_page.get_text_range())]
    text = "".join(letter for _, letter in letters)
    lines = [line for line in map(_bare, passage.splitlines()) if len(line) >= _TELLING]
    whole = _bare(passage)
    for sought in [whole] if whole in text else lines:
        if sought and (first := text.find(sought)) >= 0:
            start, last = letters[first][0], letters[first + len(sought) - 1][0]
            for n in range(text_page.count_rects(start, last + 1 - start)):
                yield text_page.get_rect(n)


def _bare(text: str) -> str:
    return "".join(letter for _, letter in _letters(text))


def _letters(text: str) -> Iterator[tuple[int, str]]:
    """Letters and their places: the text that was read has other spaces, and no ligatures."""
    for place, character in enumerate(text):
        for letter in unicodedata.normalize("NFKC", character).lower():
            if letter.isalnum():
                yield place, letter


if __name__ == "__main__":
    main()
