"""What an answer names as its sources: only what it uses words of, over chats about documents."""

from __future__ import annotations

import json
import re

import pytest

from harness.services import ROOT
from tests.browser.page import ChatPage

_CHATS = ROOT / "bench" / "data" / "chats" / "counting"
_TURNS = 12
_WORD = re.compile(r"\w{4,}|\d+")


def words(text: str) -> set[str]:
    """The words of a text that are likely to be more than grammar, without their endings."""
    return {word[:4] for word in _WORD.findall(text.lower())}


def unused(chat: ChatPage) -> list[str]:
    """The passages among the last answer's sources that it has no word of."""
    answer = chat.last_answer
    used = answer.locator("[data-testid=source][data-used] [data-testid=passage]")
    said = words(chat.text(answer))
    return [passage for passage in used.all_text_contents() if not said & words(passage)]


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emptied")
def test_no_source_is_one_whose_words_the_answer_does_not_use(chat: ChatPage) -> None:
    chats = _CHATS / "chats.jsonl"
    chat.upload(*(path for path in _CHATS.iterdir() if path != chats))
    asked = sourced = 0
    for line in chats.read_text("utf-8").splitlines():
        if asked >= _TURNS:
            break
        chat.new_chat()
        for turn in json.loads(line)["chat"]:
            chat.answered(turn["q"])
            assert unused(chat) == [], (turn["q"], chat.text())
            asked += 1
            sourced += chat.sources().count() > 0
    assert sourced > asked / 2  # else nothing was looked at
