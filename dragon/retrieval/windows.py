"""Packs consecutive passages into texts of the embedder's length.

Each passage goes through the embedder once, between its neighbours, and its vector is the mean over
its own tokens (late chunking, arXiv 2409.04701). Its context is put before it, unless the window
has it already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

Passage = tuple[str, str]
"""A text and its context, as in `dragon.retrieval.chunking.Sentence`."""


@dataclass(frozen=True)
class Window:
    """Tokens to embed at once; `spans` are where each passage begins and ends in them."""

    ids: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


def windows(
    passages: Sequence[Passage], encode: Callable[[str], list[int]], most: int
) -> Iterator[Window]:
    """All passages in order, in windows of at most `most` tokens. Longer passages are cut."""
    window, said = Window(), set[str]()
    for text, context in passages:
        own = encode(text)[:most]
        above = encode(_unsaid(context, said))
        if window.spans and len(window.ids) + len(above) + len(own) > most:
            yield window
            window, said = Window(), set()
            above = encode(context)
        window.ids.extend(above[: most - len(own)])
        start = len(window.ids)
        window.ids.extend(own)
        window.spans.append((start, len(window.ids)))
        said |= {text, context}
    if window.spans:
        yield window


def _unsaid(context: str, said: Collection[str]) -> str:
    """The part of a context a window lacks; it may be a heading with the opening of a line."""
    if context in said:
        return ""
    openings = (each for each in said if each and context.endswith(f": {each}"))
    if (opening := next(openings, None)) is None:
        return context
    heading = context.removesuffix(f": {opening}")
    return "" if heading in said else heading
