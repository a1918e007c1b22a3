"""Sentences in English that can be said in other languages."""

from __future__ import annotations

import copy
import json

from dragon.told import Told, row, told, with_told

WHAT = told("kind.gif", "a GIF image")
SENTENCE = told("file.other", "The file {name} is {what}.", name="{x}.gif", what=WHAT)


def test_it_is_its_english() -> None:
    assert SENTENCE == "The file {x}.gif is a GIF image."
    assert json.loads(json.dumps(SENTENCE)) == SENTENCE


def test_json_keeps_all_of_it() -> None:
    again = Told.of(json.loads(json.dumps(SENTENCE.shown())))
    assert again == SENTENCE
    assert again.shown() == SENTENCE.shown()
    what = again.values["what"]
    assert isinstance(what, Told)
    assert what.code == "kind.gif"


def test_a_copy_keeps_all_of_it() -> None:
    assert copy.deepcopy(SENTENCE).shown() == SENTENCE.shown()


def test_what_no_encoding_takes_is_replaced() -> None:
    assert told("file.gone", "no {name}", name="\ud800").encode() == b"no ?"


def test_fields_tell_of_the_sentences_among_them() -> None:
    assert with_told({"a": SENTENCE, "b": "plain", "c": 1}) == {
        "a": SENTENCE,
        "b": "plain",
        "c": 1,
        "told": {"a": SENTENCE.shown()},
    }
    assert with_told({"b": "plain"}) == {"b": "plain"}


def test_a_row() -> None:
    assert row([WHAT], ", ") is WHAT
    assert row([WHAT, SENTENCE, Told("...")], ", ") == f"{WHAT}, {SENTENCE}, ..."
