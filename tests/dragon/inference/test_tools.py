"""Calls of tools as chat templates write them, and as they are read back, however they come."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragon.inference.chat_template import Message, Rendering
from dragon.inference.rows import Begins
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import HERMES, LLAMA, CallFormat, CallReader, Tool, ToolCall
from harness.models import SMALL_MODEL
from tests.templates import TEMPLATES, WITH_TOOLS, backend

FIND = Tool(
    "find_key",
    "Find a key.",
    {
        "type": "object",
        "properties": {"room": {"$ref": "#/$defs/room"}, "deep": {"type": "boolean"}},
        "required": ["room"],
        "additionalProperties": False,
        "$defs": {"room": {"enum": ["hall", "attic"]}},
    },
)
NOW = Tool("now")
CALL = ToolCall("find_key", '{"room": "attic"}', "call_1")
ASKED = Message("user", "Where is the key?")
FORMS = {"qwen": HERMES, "llama": LLAMA}
WRITTEN = {
    HERMES: '<tool_call>\n{"name": "find_key", "arguments": {"room": "attic"}}\n</tool_call>',
    LLAMA: '{"name": "find_key", "parameters": {"room": "attic"}}',
}


def told(of: Tokenizer, messages: list[Message], *tools: Tool, document: str = "DOC") -> str:
    """What the model is told behind a document, and before it."""
    chat = of.chat(messages, Rendering(tools))
    row = of.document_row(document, begins=chat.begins)
    return of.decode([*row, *chat.tokens], special=True)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_a_template_shows_its_form(name: str) -> None:
    of = Tokenizer(backend(WITH_TOOLS[name]))
    assert of.call_form is FORMS[name]
    called = told(of, [ASKED, Message("assistant", "", (CALL,))], FIND)
    assert WRITTEN[FORMS[name]] in called
    assert '"description": "Find a key."' in called
    answered = [
        ASKED,
        Message("assistant", "", (CALL,)),
        Message("tool", "In a box.", (), "call_1"),
    ]
    assert "In a box." in told(of, answered, FIND)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_tools_follow_the_document(name: str) -> None:
    of = Tokenizer(backend(WITH_TOOLS[name]))
    before, _, after = told(of, [ASKED], FIND).partition("DOC")
    assert "find_key" in after
    assert "find_key" not in before + told(of, [ASKED])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_without_tools_has_no_form(name: str) -> None:
    assert Tokenizer(backend(TEMPLATES[name])).call_form is None


def test_tools_that_a_template_puts_before_everything_follow_the_document() -> None:
    first = "{% if tools %}{{ tools | tojson }}{% endif %}" + WITH_TOOLS["qwen"]
    of = Tokenizer(backend(first))
    whole = told(of, [ASKED], FIND)
    assert whole.startswith('DOC\n\n[{"type": "function"')
    bare = [*of.bare_row(begins=Begins.ALL), *of.chat([ASKED], Rendering((FIND,))).tokens]
    assert of.decode(bare, special=True) == whole.removeprefix("DOC\n\n")


def read_in_pieces(text: str, form: CallFormat, cuts: list[int]) -> tuple[str, list[ToolCall]]:
    reader, said, calls = CallReader(form), "", list[ToolCall]()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        more, found = reader.push(text[start:end])
        said, calls = said + more, calls + found
    more, found = reader.finish()
    return said + more, calls + found


def plain(read: tuple[str, list[ToolCall]]) -> tuple[str, list[tuple[str, Any]]]:
    text, calls = read
    return text, [(call.name, json.loads(call.arguments)) for call in calls]


ONE, OTHER = WRITTEN[HERMES], WRITTEN[HERMES].replace("attic", "hall")
ATTIC, HALL = ("find_key", {"room": "attic"}), ("find_key", {"room": "hall"})


@pytest.mark.parametrize(
    ("form", "text", "said", "calls"),
    [
        (HERMES, ONE, "", [ATTIC]),
        (HERMES, f"{ONE}\n{OTHER}", "", [ATTIC, HALL]),
        (HERMES, f"Let me look.\n{ONE}", "Let me look.", [ATTIC]),
        (HERMES, "Under 3 < 4 <tools> mats.", "Under 3 < 4 <tools> mats.", []),
        (HERMES, "<tool_call>\n{broken}\n</tool_call>", "<tool_call>\n{broken}\n</tool_call>", []),
        (HERMES, ONE.removesuffix("\n</tool_call>"), "", [ATTIC]),
        (HERMES, ONE[:40], ONE[:40], []),
        (LLAMA, WRITTEN[LLAMA], "", [ATTIC]),
        (LLAMA, f"{WRITTEN[LLAMA]}; {WRITTEN[LLAMA]}", "", [ATTIC, ATTIC]),
        (LLAMA, WRITTEN[LLAMA].replace("attic", "a; b"), "", [("find_key", {"room": "a; b"})]),
        (LLAMA, "In the attic, {as} ever.", "In the attic, {as} ever.", []),
        (LLAMA, '{"room": "attic"}', '{"room": "attic"}', []),
        (LLAMA, WRITTEN[LLAMA][:30], WRITTEN[LLAMA][:30], []),
    ],
)
@given(data=st.data())
def test_an_answer_is_read_alike_however_it_comes(
    data: st.DataObject, form: CallFormat, text: str, said: str, calls: list[Any]
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    assert plain(read_in_pieces(text, form, [])) == (said, calls)
    assert plain(read_in_pieces(text, form, cuts)) == (said, calls)


def test_text_is_said_as_soon_as_no_call_can_begin_in_it() -> None:
    reader = CallReader(HERMES)
    assert reader.push("Let me <to")[0] == "Let me"
    assert reader.push("ols> see")[0] == " <tools> see"


@pytest.mark.parametrize("form", [HERMES, LLAMA])
@pytest.mark.parametrize("parallel", [True, False])
def test_what_has_to_call_calls_by_the_schema(form: CallFormat, parallel: bool) -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    mask = tokenizer.mask(form.grammar([FIND, NOW], parallel=parallel))
    chance = torch.Generator().manual_seed(3)
    for _ in range(5):
        tokens: list[int] = []
        while not tokens or tokens[-1] not in tokenizer.end_ids:
            allowed = torch.nonzero(mask.allowed(tokens)).flatten()
            ends = [end for end in tokenizer.end_ids if end in allowed]
            drawn = allowed[torch.randint(len(allowed), (), generator=chance)]
            tokens.append(ends[0] if ends else int(drawn))
        said, calls = read_in_pieces(tokenizer.decode(tokens[:-1]), form, [])
        assert not said
        assert len(calls) == 1
        assert calls[0].name in ("find_key", "now")
        schema = FIND.parameters if calls[0].name == "find_key" else {"type": "object"}
        jsonschema.validate(json.loads(calls[0].arguments), schema)
