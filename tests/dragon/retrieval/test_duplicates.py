"""Which passages say the same."""

from __future__ import annotations

import pytest

from dragon.retrieval.find import distinct
from dragon.retrieval.relevance import Hit


def passage(text: str) -> Hit:
    return Hit(1, "a", "a.txt", text, 0.0, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The key is blue.", "the KEY is   blue", True),
        ("The key hangs on a hook by the old green door of the hut in the valley.",
         "The key hangs on a hook by the green door of the hut in the valley.", True),
        ("The code of the safe on the left of the door is 7731 since the last repair.",
         "The code of the safe on the left of the door is 7732 since the last repair.", False),
        ("In May we met Anna at the station by the river and went up to the hut with her.",
         "In May we met Bob at the station by the river and went up to the hut with her.", False),
        ("The key is blue.", "The key is red.", False),
    ],
)  # fmt: skip
def test_what_says_the_same(one: str, other: str, *, same: bool) -> None:
    for texts in ([one, other], [other, one]):
        assert len(distinct(map(passage, texts))) == (1 if same else 2)


def test_the_first_of_those_that_repeat_is_kept_in_order() -> None:
    texts = ["The key is blue.", "The key is red.", "the KEY is   blue", "The door is red."]
    kept = distinct(map(passage, texts))
    assert [each.text for each in kept] == [texts[0], texts[1], texts[3]]
