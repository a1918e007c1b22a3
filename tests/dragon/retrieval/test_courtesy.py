"""What people put around a question is not looked for."""

from __future__ import annotations

import pytest

from dragon.retrieval.query_parsing import asks_nothing, plain


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
        ("How do you say thank you?", "How do you say thank you?"),
        ("Where is the umbrella I forgot?", "Where is the umbrella I forgot?"),
        # Nothing would be left to look for.
        ("Hello!", "Hello!"),
        ("Do you know?", "Do you know?"),
        ("", ""),
    ],
)
def test_plain(asked: str, left: str) -> None:
    assert plain(asked) == left
    assert plain(left) == left


@pytest.mark.timeout(60)
@pytest.mark.parametrize("run", [" ", ", ", "hi, ", " please", "please ", "? ", "thanks. "])
def test_a_long_run_of_anything_is_read_once(run: str) -> None:
    """What grows with the square of it takes minutes here."""
    assert plain("a" + run * 60_000 + "boat").endswith("boat")
    assert plain(run * 60_000 + "boat").endswith("boat")
    assert plain("boat" + run * 60_000).startswith("boat")


@pytest.mark.parametrize("message", ["Hello!", "hi", "Hi there!", "Thanks", "Who are you?"])
def test_courtesy_alone_asks_nothing(message: str) -> None:
    assert asks_nothing(message)


@pytest.mark.parametrize("message", ["key", "Hello, where is the key?", "Thanks! And the cabin?"])
def test_a_question_behind_courtesy_asks(message: str) -> None:
    assert not asks_nothing(message)
