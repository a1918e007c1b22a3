"""Prompts of chats: what is left out of long ones, and what the ledger says they hold."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from app.generation.cloud_view import View
from app.generation.prompts import chat_prompt, shortened
from app.ledger.leakage import Part, PartKind
from dragon.inference.chat_template import Message, Rendering
from dragon.inference.tokenizer import Tokenizer
from tests.fakes import FakeGeneration

OWN = Message("system", "Be brief.")


def turns(count: int) -> list[Message]:
    talk = []
    for number in range(count):
        talk += [Message("user", f"Question {number}?"), Message("assistant", "An answer. " * 5)]
    return [OWN, *talk, Message("user", "And now?")]


@pytest.mark.parametrize("answer", [1, 100])
async def test_the_oldest_turns_are_left_out_and_no_more(tokenizer: Tokenizer, answer: int) -> None:
    model = FakeGeneration(tokenizer)
    whole = turns(40)
    kept = await shortened(model, whole, Rendering(), answer)
    assert kept[0] is OWN
    assert kept[1].role == "user"
    assert kept[1:] == whole[-len(kept) + 1 :]

    def tokens(messages: list[Message]) -> int:
        chat = tokenizer.chat(messages)
        return len(tokenizer.bare_row(begins=chat.begins)) + len(chat.tokens)

    longer = [OWN, *whole[-len(kept) - 1 :]]
    assert tokens(kept) <= model.context_length - answer < tokens(longer)


async def test_what_fits_and_what_cannot_fit_stays(tokenizer: Tokenizer) -> None:
    model = FakeGeneration(tokenizer)
    assert await shortened(model, turns(2), Rendering(), 1) == turns(2)
    long = Message("user", "word " * 1000)
    assert await shortened(model, [*turns(2)[:-1], long], Rendering(), 1) == [OWN, long]


async def test_who_leaves_ends_the_search_for_what_to_leave_out(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, loop, tries, left = tokenizer.chat, asyncio.get_running_loop(), [], threading.Event()

    def tried(*arguments: Any) -> object:
        tries.append(arguments)
        if len(tries) == 2:  # the first is of the whole chat
            loop.call_soon_threadsafe(search.cancel)
            assert left.wait(30)
        return chat(*arguments)

    monkeypatch.setattr(tokenizer, "chat", tried)
    search = asyncio.ensure_future(shortened(FakeGeneration(tokenizer), turns(40), Rendering(), 1))
    with pytest.raises(asyncio.CancelledError):
        await search
    left.set()
    await loop.shutdown_default_executor()
    assert len(tries) == 2


async def test_words_that_a_client_gives_the_template_are_told_to_the_ledger(
    tokenizer: Tokenizer,
) -> None:
    asked = (Message("user", "And now?"),)
    rendering = Rendering(variables={"enable_thinking": False, "today": "the day of the heron"})
    view = View(asked, (Part(PartKind.QUESTION, "And now?"),))
    prompt = await chat_prompt(FakeGeneration(tokenizer), asked, view, rendering)
    assert prompt.parts[1:] == (Part(PartKind.INSTRUCTIONS, '{"today": "the day of the heron"}'),)
