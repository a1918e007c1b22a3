"""Sentences in English that can be said in other languages."""

from __future__ import annotations

import copy
import json

from dragon.localizable import Localizable, joined, localizable, one_line, with_localizable

WHAT = localizable("kind.gif", "a GIF image")
SENTENCE = localizable("file.other", "The file {name} is {what}.", name="{x}.gif", what=WHAT)


def test_it_is_its_english() -> None:
    assert SENTENCE == "The file {x}.gif is a GIF image."
    assert json.loads(json.dumps(SENTENCE)) == SENTENCE


def test_what_another_machine_says_is_part_of_a_line() -> None:
    assert one_line("no\n12:00 ERROR\x1b[2J \u202ereversed") == "no 12:00 ERROR [2J reversed"
    assert one_line("Größe ≥ 3 “µm”") == "Größe ≥ 3 “µm”"
    assert one_line("x" * 10, 10) == "x" * 10
    assert one_line("x" * 11, 10) == "x" * 9 + "…"


def test_json_keeps_all_of_it() -> None:
    again = Localizable.from_json(json.loads(json.dumps(SENTENCE.as_json())))
    assert again == SENTENCE
    assert again.as_json() == SENTENCE.as_json()
    assert again.values["what"].code == "kind.gif"


def test_a_copy_keeps_all_of_it() -> None:
    assert copy.deepcopy(SENTENCE).as_json() == SENTENCE.as_json()


def test_what_no_encoding_takes_is_replaced() -> None:
    assert localizable("file.gone", "no {name}", name="\ud800").encode() == b"no ?"


def test_fields_tell_of_the_sentences_among_them() -> None:
    assert with_localizable({"a": SENTENCE, "b": "plain", "c": 1}) == {
        "a": SENTENCE,
        "b": "plain",
        "c": 1,
        "localizable": {"a": SENTENCE.as_json()},
    }
    assert with_localizable({"b": "plain"}) == {"b": "plain"}


def test_several_are_joined() -> None:
    assert joined([WHAT], ", ") is WHAT
    assert joined([WHAT, SENTENCE, Localizable("...")], ", ") == f"{WHAT}, {SENTENCE}, ..."
