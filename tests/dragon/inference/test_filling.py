"""The names by which models mark two texts between which they write."""

from __future__ import annotations

import pytest

from dragon.inference.tokenizer import Marks, marks_of


@pytest.mark.parametrize(
    ("vocabulary", "marks"),
    [
        (
            {"a", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_prefix|>", "<|endoftext|>"},
            Marks("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", ("<|endoftext|>",)),
        ),
        (
            {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},
            Marks("<fim_prefix>", "<fim_suffix>", "<fim_middle>", ("<file_sep>",)),
        ),
        (
            {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
            Marks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        ),
        (
            {"▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"},
            Marks("▁<PRE>", "▁<SUF>", "▁<MID>", ("▁<EOT>",)),
        ),
        ({"<|fim_prefix|>", "<|fim_suffix|>", "<fim_middle>", "<|endoftext|>"}, None),
    ],
)
def test_each_family_has_its_names(vocabulary: set[str], marks: Marks | None) -> None:
    assert marks_of(vocabulary) == marks
