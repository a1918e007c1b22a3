"""Prompts as transformers renders them, for the templates of seven families of models."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from dragon.inference.chat_template import Message, Rendering
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import Tool, ToolCall
from tests.model_templates import MODELS, SPECIALS, TAKE_TOOLS
from tests.templates import backend

FIND = Tool("find_key", "Find a key.", {"type": "object", "properties": {"room": {}}})
CALL = ToolCall("find_key", '{"room": "attic"}', "call00001")


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str) -> Message:
    return Message("assistant", text)


def system(text: str) -> Message:
    return Message("system", text)


WHO = user("Who are you?")
BOB = system("You are Bob, a gardener.")
TALK = [user("Where is it?"), said("Under the pot."), user("Which one?")]
CALLED = [user("Where is the key?"), Message("assistant", "", (CALL,))]
ANSWERED = [*CALLED, Message("tool", "In a box.", answers="call00001")]
# Turns, tools, variables, and whether the last turn is gone on with.
CONVERSATIONS: list[tuple[list[Message], tuple[Tool, ...], dict[str, Any], bool]] = [
    ([WHO], (), {}, False),
    ([BOB, WHO], (), {}, False),
    (TALK, (), {}, False),
    ([BOB, *TALK], (), {}, False),
    ([system(""), WHO], (), {}, False),
    ([system("\n  Speak in rhyme.\n\n"), WHO], (), {}, False),
    ([system("# Rules\n\n1. Be brief.\n2. Cite."), *TALK], (), {}, False),
    ([user("  spaces around  ")], (), {}, False),
    ([user("Zürich – 100 € 雪 ☃ 👩‍👩‍👧")], (), {}, False),
    ([user("a\n\n\nb\n"), said("c\n"), user("\nd")], (), {}, False),
    ([user("Write <|im_end|> and [INST] and <end_of_turn>.")], (), {}, False),
    ([system("You are a helpful AI assistant named SmolLM"), WHO], (), {}, False),
    ([WHO, said("Hello, my name is")], (), {}, True),
    ([BOB, WHO, said("I'm Bob and")], (), {}, True),
    ([*TALK, said("The blue one,")], (), {}, True),
    ([WHO, said("<think>\nA name.\n</think>\n\nBob."), user("Why?")], (), {}, False),
    ([WHO], (), {"enable_thinking": False}, False),
    ([*TALK, said("The blue."), user("And?"), said("None."), user("So?")], (), {}, False),
    ([user("Where is the key?")], (FIND,), {}, False),
    ([BOB, *ANSWERED], (FIND,), {}, False),
]


@cache
def tokenizer(name: str) -> Tokenizer:
    begin, end, others = SPECIALS[name]
    made = backend(MODELS[name])
    special = {"eos_token": end, "additional_special_tokens": others}
    made.add_special_tokens(special if begin is None else {**special, "bos_token": begin})
    return Tokenizer(made)


def rendered(
    name: str,
    messages: list[Message],
    tools: tuple[Tool, ...],
    variables: dict[str, Any],
    *,
    continued: bool,
) -> str:
    """As transformers renders it."""
    text: str = tokenizer(name)._backend.apply_chat_template(
        [message.described() for message in messages],
        tools=[tool.described() for tool in tools] or None,
        add_generation_prompt=not continued,
        continue_final_message=continued,
        tokenize=False,
        **variables,
    )
    return text


models = pytest.mark.parametrize("name", MODELS)
conversations = pytest.mark.parametrize("number", range(len(CONVERSATIONS)))


def asked(name: str, number: int) -> tuple[list[Message], Rendering, str]:
    """A conversation; those with tools go without where a template has none."""
    messages, tools, variables, continued = CONVERSATIONS[number]
    if tools and name not in TAKE_TOOLS:
        tools, messages = (), [m for m in messages if m.role == "user" or m.role == "system"]
    text = rendered(name, messages, tools, variables, continued=continued)
    return messages, Rendering(tools, variables, continued=continued), text


@models
@conversations
def test_without_a_document_the_prompt_is_the_templates_token_for_token(
    name: str, number: int
) -> None:
    of = tokenizer(name)
    messages, rendering, text = asked(name, number)
    chat = of.chat(messages, rendering)
    prompt = [*of.bare_row(begins=chat.begins), *chat.tokens]
    assert of.decode(prompt, special=True) == text
    whole = of.read(text)
    starts_with_a_break = messages[0].role == "system" and messages[0].content.startswith("\n")
    assert prompt == whole or starts_with_a_break


@models
@conversations
def test_a_document_begins_the_system_message_or_the_first_question(name: str, number: int) -> None:
    of = tokenizer(name)
    messages, rendering, _ = asked(name, number)
    own = messages[0].role == "system"
    document = "DOCUMENT\n\n" + messages[0].content if own else "DOCUMENT"
    placed = [system(document), *messages[own:]]
    expected = rendered(
        name,
        placed,
        rendering.tools,
        dict(rendering.variables),
        continued=rendering.continued,
    )
    chat = of.chat(messages, rendering)
    row = of.document_row("DOCUMENT", begins=chat.begins)
    shown = of.decode([*row, *chat.tokens], special=True)
    if own and not messages[0].content.strip():
        expected = expected.replace("DOCUMENT", "DOCUMENT\n\n", expected.count("DOCUMENT<"))
    assert shown.split() == expected.split()
    if name != "llama3.2":  # which trims
        assert shown == expected


@models
def test_rows_are_the_same_for_every_conversation(name: str) -> None:
    of = tokenizer(name)
    kinds = {}
    for number in range(len(CONVERSATIONS)):
        messages, rendering, _ = asked(name, number)
        begins = of.chat(messages, rendering).begins
        row = (*of.bare_row(begins=begins), -1, *of.document_row("x", begins=begins))
        assert kinds.setdefault(begins, row) == row
    assert "all" not in kinds


def test_which_templates_think() -> None:
    thinking = {name: tokenizer(name).variables for name in MODELS if tokenizer(name).reasons}
    assert thinking == {"qwen3": {"enable_thinking"}}
