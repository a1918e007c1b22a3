"""Images: the text that is recognised in them."""

from __future__ import annotations

import io
import struct
from typing import Any

from app.documents.readers.common import UnreadableError, damaged
from app.documents.readers.ocr import MOST_PIXELS, Recognised, Tesseract
from dragon.localizable import localizable

_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG", "MPO"), "tiff": ("TIFF",), "webp": ("WEBP",)}
_LARGEST = 100_000_000  # pixels
_MOST_PAGES = 1000
_SMALL = 1500  # pixels: the longer side of a picture whose letters are worth enlarging
_TOO_LARGE = localizable(
    "file.megapixels",
    "The image has more than {count} megapixels. Make it smaller.",
    count=_LARGEST // 1_000_000,
)
_TOO_MANY = localizable(
    "file.image.pages", "The image has more than {count} pages. Split it.", count=_MOST_PAGES
)


def image_pages(data: bytes, kind: str, ocr: Tesseract | None) -> list[Recognised | None]:
    """The pages of an image, of which only a TIFF has several. None for what was not read.

    Raises UnreadableError.
    """
    from PIL import Image, ImageSequence

    if ocr is None:
        return [None]
    try:
        opened = Image.open(io.BytesIO(data), formats=_FORMATS[kind])
        frames = ImageSequence.Iterator(opened) if kind == "tiff" else [opened]
        count = getattr(opened, "n_frames", 1) if kind == "tiff" else 1
        pages = []
        for number, frame in enumerate(frames):
            if number == _MOST_PAGES:
                raise UnreadableError(_TOO_MANY)
            pages.append(ocr.read(_page(frame), (number + 1, count)))
    except Image.DecompressionBombError:
        raise UnreadableError(_TOO_LARGE) from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error):
        raise UnreadableError(damaged(f".{kind}")) from None
    return pages


def _page(image: Any) -> Any:
    """The image as it is looked at, in gray, of a size that is good to read."""
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
    scale = min(2.0 if max(image.size) < _SMALL else 1.0, _fitting(image))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image if scale == 1.0 else image.resize(size)


def _fitting(image: Any) -> float:
    return float((MOST_PIXELS / (image.width * image.height)) ** 0.5)
