"""How the built-in model is asked, as its adapter was taught."""

from __future__ import annotations

from dragon.models.instructions import ALONE, transcript
from training.writer import rewritten


def test_a_conversation_is_one_text() -> None:
    assert transcript([("user", "Who?"), ("assistant", "Ana.")]) == "User: Who?\nAssistant: Ana."


def test_what_was_taught_is_what_is_asked() -> None:
    turns = [["Who mends it?", "Ana does.", None], ["And when?", "In May.", "When does she?"]]
    ((messages, reply),) = rewritten({"turns": turns})
    talk = [("user", "Who mends it?"), ("assistant", "Ana does."), ("user", "And when?")]
    assert messages == [("system", ALONE), ("user", transcript(talk))]
    assert reply == "When does she?"
