"""The special tokens with which models mark texts to write between."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Marks:
    """What precedes a text, the text after the gap, and the text to be written between them.

    Besides the usual end tokens, one of `ends` ends that text.
    """

    before: str
    behind: str
    between: str
    ends: tuple[str, ...] = ()


SPELLINGS = (
    # Qwen2.5-Coder, CodeGemma
    Marks(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        ("<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    # StarCoder, Granite
    Marks(
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        ("<|endoftext|>", "<fim_pad>", "<repo_name>", "<file_sep>"),
    ),
    # DeepSeek-Coder
    Marks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    # CodeLlama
    Marks("▁<PRE>", "▁<SUF>", "▁<MID>", ("▁<EOT>",)),
)


def marks_of(vocabulary: Collection[str]) -> Marks | None:
    """The marks found among a model's token names; None if it has none."""
    for marks in SPELLINGS:
        if all(name in vocabulary for name in (marks.before, marks.behind, marks.between)):
            return replace(marks, ends=tuple(name for name in marks.ends if name in vocabulary))
    return None
