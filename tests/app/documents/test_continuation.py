"""How far a passage may go on."""

from __future__ import annotations

from pathlib import Path

from app.documents.continuation import continuations

TEXT = "The tap leaks. Call Ann, then Bob. He has keys.\nThe lift is new."


def test_a_passage_goes_on_to_the_end_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text(TEXT, "utf-8")
    ends = [TEXT.index(mark) + len(mark) for mark in ("Bob.", "keys.", "new.")]
    assert continuations(file, 0, ends) == [
        "The tap leaks. Call Ann, then Bob.",
        "The tap leaks. Call Ann, then Bob. He has keys.",
    ]


def test_a_document_that_is_gone_has_none(tmp_path: Path) -> None:
    assert continuations(tmp_path / "text", 0, [5]) == []
