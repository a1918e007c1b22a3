"""Screenshots, put side by side and reduced to few colours."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

GAP = 16  # pixels between tabs
COMMON, RARE = 8, 12  # colours of a picture: those of most of it, and of the others


def side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    """Pictures of one height, a little apart."""
    width = sum(each.width + GAP for each in pictures) - GAP
    whole = Image.new("RGB", (width, pictures[0].height), "gray")
    left = 0
    for each in pictures:
        whole.paste(each, (left, 0))
        left += each.width + GAP
    return whole


def in_few_colours(picture: Image.Image) -> Image.Image:
    """A picture of the page without the many shades of its letters' edges: half as large a file."""
    found = picture.getcolors(picture.width * picture.height) or []
    most = sorted(found, reverse=True)[:COMMON]
    common = [level for _, colour in most if isinstance(colour, tuple) for level in colour]
    rare = picture.quantize(RARE, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*common, *rare[: 3 * RARE]])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB")
