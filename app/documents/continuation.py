"""How far a passage may go on: to the end of its line, sentence by sentence.

"Who fixes the tap?" finds "The tap has leaked since May."; what answers it comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SENTENCES = 2
"""The most that follow a passage."""


def continuations(file: Path, start: int, ends: Sequence[int]) -> list[str]:
    """The text from `start` up to each of the `ends` that lie in one line with it.

    `start` and `ends` are character offsets in the document's text, which is read from `file`; none
    are found if that is gone.
    """
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return []
    found = (text[start:end] for end in ends)
    return [longer for longer in found if "\n" not in longer]
