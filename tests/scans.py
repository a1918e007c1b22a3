"""Pictures of text, and programs that take the place of Tesseract."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from harness.pdf import pdf

# The cell is tried from within: what each attempt came to is the text of the page.
_FAKE = """#!{python} -I
import os, socket, sys, time
if "--list-langs" in sys.argv:
    sys.exit(print("List of available languages (4):", "deu", "eng", "osd", "fra", sep="\\n"))
page = sys.stdin.buffer.read()
assert page.startswith(b"P5"), page[:20]
def tried(attempt):
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "out"
confidence = 95
words = []
{does}
print("level", "block_num", "par_num", "line_num", "conf", "text", sep="\\t")
for word in words:
    print(5, 1, 1, 1, confidence, word, sep="\\t")
"""


def fake_tesseract(directory: Path, does: str) -> Path:
    """A folder for the path with a `tesseract` that puts its text into `words`."""
    folder = directory / "programs" / "bin"
    folder.mkdir(parents=True)
    program = folder / "tesseract"
    program.write_text(_FAKE.format(python=sys.executable, does=does))
    program.chmod(0o755)
    return folder


def picture(*lines: str, size: int = 40, blur: float = 0, mode: str = "L") -> Any:
    """Black lines on white, each letter so many pixels high."""
    image = Image.new("L", (1700, 200 + 2 * size * len(lines)), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((100, 100 + 2 * size * number), line, 0, ImageFont.load_default(size))
    return image.filter(ImageFilter.GaussianBlur(blur)).convert(mode)


def saved(image: Any, kind: str, **options: Any) -> bytes:
    """The bytes of an image as a file of a kind, such as PNG."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def scanned_pdf(*images: Any) -> bytes:
    """A PDF whose pages are pictures."""
    return saved(images[0], "PDF", save_all=True, append_images=images[1:], resolution=200)


def half_scanned_pdf() -> bytes:
    """Three pages: text, a picture of a dot, nothing."""
    placeholder = "x" * 80
    image = b"ET q 9 0 0 9 9 9 cm BI /W 1 /H 1 /CS /G /BPC 8 ID a EI Q BT"
    shown = f"({placeholder}) Tj T*".encode()
    return pdf("One.", placeholder, "").replace(shown, image.ljust(len(shown)))
