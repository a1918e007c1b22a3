"""Reasoning, text and calls, read out of an answer however its text comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.inference.reading import AnswerReader, Reading, Said, read
from dragon.inference.tools import HERMES

THINKS, BEGUN = Reading(reasons=True), Reading(reasons=True, begun=True)
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def told(said: Said) -> tuple[str, str, list[str]]:
    return said.reasoning, said.text, [call.name for call in said.calls]


ANSWERS = [
    (THINKS, "<think>\nA key.\n\nOr two?\n</think>\n\nOne.", ("A key.\n\nOr two?", "One.", [])),
    (THINKS, "\n<think>\n\n</think>\n\nOne.", ("", "One.", [])),
    (THINKS, "One. <think>no</think>", ("", "One. <think>no</think>", [])),
    (THINKS, "  One <b>", ("", "  One <b>", [])),
    (THINKS, "<think>\nCut off </th", ("Cut off </th", "", [])),
    (THINKS, "<thi", ("", "<thi", [])),
    (BEGUN, "\nA key.\n</think>\n\nOne.", ("A key.", "One.", [])),
    (BEGUN, "A < b", ("A < b", "", [])),
    (Reading(), "<think>\nx\n</think>y", ("", "<think>\nx\n</think>y", [])),
    (Reading(HERMES, reasons=True), f"<think>Now.</think>\n{CALL}", ("Now.", "", ["now"])),
    (Reading(HERMES), f"Well.\n{CALL}", ("", "Well.", ["now"])),
]


@pytest.mark.parametrize(("reading", "text", "expected"), ANSWERS)
@given(data=st.data())
def test_an_answer_says_the_same_whole_and_in_pieces(
    reading: Reading, text: str, expected: tuple[str, str, list[str]], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    reader = AnswerReader(reading)
    edges = [0, *cuts, len(text)]
    pieces = [reader.push(text[a:b]) for a, b in pairwise(edges)]
    pieces.append(reader.finish())
    whole = Said(
        "".join(piece.text for piece in pieces),
        [call for piece in pieces for call in piece.calls],
        "".join(piece.reasoning for piece in pieces),
    )
    assert told(whole) == expected
    assert told(read(text, reading)) == expected


def test_text_behind_thoughts_is_not_held_back() -> None:
    reader = AnswerReader(THINKS)
    assert told(reader.push("<think>a")) == ("a", "", [])
    assert told(reader.push(" b</think>\n\nHe")) == (" b", "He", [])
