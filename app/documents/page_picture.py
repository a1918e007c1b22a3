"""A page of a PDF as it looks, with a passage marked."""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Iterator
from typing import Any

import pypdfium2
from PIL import Image, ImageChops, ImageDraw

_SCALE = 2.0  # pixels a point: 144 an inch
_MOST_PIXELS = 6_000_000  # of large plans
_TELLING = 12  # letters of a line that are likely to stand only once
_MARKED = (255, 222, 89)


def drawn(pdf: bytes, number: int, passage: str) -> tuple[bytes, float | None]:
    """A page, from 1, as PNG; where the first mark is, from 0 at its top to 1, None if nowhere."""
    document = pypdfium2.PdfDocument(pdf)
    document.init_forms()
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(_SCALE, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale)
    picture = bitmap.to_pil().convert("RGB")
    marks = Image.new("RGB", picture.size, "white")
    brush = ImageDraw.Draw(marks)
    place = bitmap.get_posconv(page)
    tops = []
    for left, bottom, right, top in _boxes(page, passage):
        (a, b), (c, d) = place.to_bitmap(left, top), place.to_bitmap(right, bottom)
        box = min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1  # it may be turned
        brush.rectangle(box, fill=_MARKED)
        tops.append(box[1] / picture.height)
    written = io.BytesIO()
    ImageChops.multiply(picture, marks).save(written, "PNG")
    top = max(0.0, min(tops, default=math.inf))
    return written.getvalue(), top if top <= 1 else None  # it may lie beyond what is shown


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
