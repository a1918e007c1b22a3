"""The built-in model on both sides: the ledger has all that crosses, on every route.

And what is found is what is there: a word that the ledger has not is told, and so is one too many.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench.experiments.wiretap import held, tapped
from bench.lib.canaries import Canaries, Place
from bench.lib.crossed import Crossed

CANARIES = Canaries(random.Random(0))
DOCUMENT, QUESTION = CANARIES.new(Place.DOCUMENT), CANARIES.new(Place.QUESTION)
ASKED = f"What does {QUESTION} want?"
PUBLIC = Crossed(
    what="chat",
    rung="when_needed",
    text=f"It is {DOCUMENT} who knows.",
    asked=[ASKED],
    runs=[DOCUMENT, "who"],
    sent=3,
    given=[ASKED],
    words=[DOCUMENT, "who"],
    frames=3,
)


def test_what_is_said_and_shown_is_as_it_should_be() -> None:
    assert not PUBLIC.unnamed(CANARIES, [])
    assert not PUBLIC.unsaid(set(), [])
    assert not PUBLIC.unshown(CANARIES)
    assert not PUBLIC.overstated(CANARIES)
    assert not PUBLIC.forbidden


def test_what_is_not_is_found() -> None:
    canary, asker = DOCUMENT.lower(), QUESTION.lower()
    assert replace(PUBLIC, words=["who"]).unnamed(CANARIES, []) == {canary}
    assert replace(PUBLIC, words=["who"]).unnamed(CANARIES, [DOCUMENT]) == set()
    assert replace(PUBLIC, given=[]).unnamed(CANARIES, []) == {asker}
    assert replace(PUBLIC, words=[DOCUMENT]).unsaid(set(), []) == {"who"}
    assert replace(PUBLIC, given=[QUESTION]).unsaid({"what"}, []) == {"does", "want"}
    assert replace(PUBLIC, text="It is who.").unshown(CANARIES) == {canary, DOCUMENT}
    always = replace(PUBLIC, text="", rung="always")
    assert always.unshown(CANARIES) == set()
    private = CANARIES.new(Place.PRIVATE)
    assert replace(always, asked=[private]).unshown(CANARIES) == {private.lower()}
    assert replace(PUBLIC, asked=[]).overstated(CANARIES) == {asker}
    assert replace(PUBLIC, rung="never").forbidden


@pytest.mark.services
@pytest.mark.timeout(900)
def test_on_every_route_the_ledger_has_all_that_crosses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.lib.routes._TOKENS", 16)
    with tapped(tmp_path) as tap:
        found = list(held(tap, 20))
    wrong = {each.request.what: what for each in found for what in each.wrong.values() if what}
    assert wrong == {}
    assert sum(each.crossed for each in found) > 5
    assert {each.request.rung for each in found} == {"when_needed", "always", "never"}
