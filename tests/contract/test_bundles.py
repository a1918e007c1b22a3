"""Answers at once share messages of the link, and each is the text it is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.services import Setup
from tests.contract.asking import Ask, ask_all, questions
from tests.contract.tapped import tapped_pair

pytestmark = pytest.mark.services


def test_answers_at_once_share_messages(corpus: Path, tmp_path: Path) -> None:
    setup = Setup(tmp_path, {"DRAGON_FIRST_TOKEN_DEADLINE": "3600"})
    asks = [Ask(question.text, seed=n) for n, question in enumerate(questions()[:6])]
    with tapped_pair(setup, corpus) as running:
        alone = [reply for ask in asks for reply in ask_all(running.device, [ask])]
        bundles = running.tap.bundles
        bundles.clear()
        together = ask_all(running.device, asks)
    # Where a busy machine has kept one side from taking part, the text is another.
    pairs = [
        (one.text, other.text)
        for one, other in zip(alone, together, strict=True)
        if one.participation == other.participation
    ]
    assert len(pairs) > len(asks) / 2
    assert all(one == other for one, other in pairs)
    assert bundles["device"] > 0
    assert bundles["peer"] > 0
