"""A page of a PDF as it looks, with a passage marked: drawn in a process that is shut in.

    python page_picture.py DESCRIPTOR PAGE

draws the page (from 1) of the PDF that is open there, and marks the passage that is its standard
input. It writes where the first mark is, as a fraction of the height, then the page as PNG. The
process is confined as those that parse (`parse_worker`), and little of what it says is believed.
"""

from __future__ import annotations

import asyncio
import io
import struct
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
_MOST_BYTES = 4 * _MOST_PIXELS
_PLACE = struct.Struct("!d")  # below 0: nothing is marked
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
        *(sys.executable, "-I", __file__, str(pdf.fileno()), str(page)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=[pdf.fileno()],
        env={},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_CLOCK_SECONDS):
            process.stdin.write(passage.encode())
            process.stdin.close()
            written = await _whole(process.stdout)
            await process.wait()
    except (TimeoutError, asyncio.LimitOverrunError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
            while await process.stdout.read(_MOST_BYTES):  # else wait() might never return
                pass
            await process.wait()
    if process.returncode or len(written) < _PLACE.size:
        return None
    (mark,) = _PLACE.unpack_from(written)
    return PagePicture(written[_PLACE.size :], mark if 0 <= mark <= 1 else None)


async def _whole(stream: asyncio.StreamReader) -> bytes:
    """All of it. Raises `LimitOverrunError` where there may be no end to it."""
    try:
        await stream.readexactly(_MOST_BYTES)
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    raise asyncio.LimitOverrunError("too much for a picture", _MOST_BYTES)


def main() -> None:
    """Draw what is asked for."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import pypdfium2
    from PIL import Image, ImageChops, ImageDraw

    from app.documents.cell import confine, limit

    limit(_CPU_SECONDS, _MEMORY_BYTES)
    Image.preinit()
    confine()
    with open(int(sys.argv[1]), "rb") as file:
        document = pypdfium2.PdfDocument(file.read())
    document.init_forms()
    page = document[int(sys.argv[2]) - 1]
    width, height = page.get_size()
    scale = min(_SCALE, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale)
    picture = bitmap.to_pil().convert("RGB")
    marks = Image.new("RGB", picture.size, "white")
    brush = ImageDraw.Draw(marks)
    place = bitmap.get_posconv(page)
    tops = []
    for left, bottom, right, top in _boxes(page, sys.stdin.buffer.read().decode()):
        (a, b), (c, d) = place.to_bitmap(left, top), place.to_bitmap(right, bottom)
        box = min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1  # it may be turned
        brush.rectangle(box, fill=_MARKED)
        tops.append(box[1] / picture.height)
    written = io.BytesIO()
    ImageChops.multiply(picture, marks).save(written, "PNG")
    mark = max(0.0, min(tops)) if tops else -1
    sys.stdout.buffer.write(_PLACE.pack(mark) + written.getvalue())


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
