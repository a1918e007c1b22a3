"""How far a passage may go on: to the end of its line, sentence by sentence.

"Who fixes the tap?" finds "The tap has leaked since May."; what answers it comes next.
"""

from __future__ import annotations

from collections.abc import Sequence

SENTENCES = 2
"""The most that follow a passage."""


def continuations(text: str, start: int, ends: Sequence[int]) -> list[str]:
    """What stands from `start` up to each of the `ends` that lie in one line with it.

    `start` and `ends` are character offsets in the document's text; none are found in an empty one.
    """
    found = (text[start:end] for end in ends)
    return [longer for longer in found if longer and "\n" not in longer]
