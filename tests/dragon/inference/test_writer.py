"""How the built-in model is asked, as its adapter was taught."""

from __future__ import annotations

import random

from dragon.inference.writer import lines_prompt, transcript
from training.texts import read_texts
from training.writer import Replies


def test_lines_are_numbered_below_what_they_stand_under() -> None:
    lines = [("Pressure", "Fill up to 1.3 bar."), ("", "Ask Ana.")]
    assert lines_prompt(lines, 4).splitlines()[1:] == [
        "[4] Pressure > Fill up to 1.3 bar.",
        "[5] Ask Ana.",
    ]


def test_a_conversation_is_one_text() -> None:
    assert transcript([("user", "Who?"), ("assistant", "Ana.")]) == "User: Who?\nAssistant: Ana."


def test_what_was_taught_is_what_is_asked() -> None:
    texts = read_texts()[:20]
    replies = Replies(texts)
    task = replies.task(f"{texts[0].name}:a0", "So it is.", random.Random(1))
    assert task is not None
    (system, question), reply = task
    assert system[1].startswith(lines_prompt([], 1))
    assert question == ("user", texts[0].asked[0][0])
    assert reply.startswith("So it is. [")
