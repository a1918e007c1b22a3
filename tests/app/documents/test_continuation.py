"""How far a passage may go on."""

from __future__ import annotations

from pathlib import Path

from app.documents.continuation import continuations
from app.documents.texts import text_of

TEXT = "The tap leaks. Call Ann, then Bob. He has keys.\nThe lift is new."


def test_a_passage_goes_on_to_the_end_of_its_line() -> None:
    ends = [TEXT.index(mark) + len(mark) for mark in ("Bob.", "keys.", "new.")]
    assert continuations(TEXT, 0, ends) == [
        "The tap leaks. Call Ann, then Bob.",
        "The tap leaks. Call Ann, then Bob. He has keys.",
    ]


def test_a_document_that_is_gone_has_none(tmp_path: Path) -> None:
    assert continuations(text_of(tmp_path, "gone"), 0, [5]) == []
