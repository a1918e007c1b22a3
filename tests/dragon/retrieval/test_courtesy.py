"""What people put around a question is not looked for."""

from __future__ import annotations

import pytest

from dragon.retrieval.courtesy import plain


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("Where is the tent?", "Where is the tent?"),
        ("Hi! Could you tell me where the tent is, please?", "where the tent is?"),
        ("Sorry, quick question: where is the tent? Thanks.", "where is the tent?"),
        ("Do you remember who repaired it? I forgot.", "who repaired it?"),
        ("hello there, any idea when it opens", "when it opens"),
        # Words that are asked for stay.
        ("Who is the tell-tale?", "Who is the tell-tale?"),
        ("When is question time?", "When is question time?"),
        ("Hidden where?", "Hidden where?"),
        ("Sonia called when?", "Sonia called when?"),
        # Nothing would be left to look for.
        ("Hello!", "Hello!"),
        ("Do you know?", "Do you know?"),
        ("", ""),
    ],
)
def test_plain(asked: str, left: str) -> None:
    assert plain(asked) == left
    assert plain(left) == left
