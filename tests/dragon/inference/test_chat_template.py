"""Where a document stands in templates that take no system message first, or are none.

With those of current models: `test_model_templates`.
"""

from __future__ import annotations

import pytest

from dragon.errors import InvalidRequestError
from dragon.inference.chat_template import Message
from dragon.inference.tokenizer import Tokenizer
from tests.templates import backend, tokenizer

QUESTION = Message("user", "Where is the key?")
TALK = [QUESTION, Message("assistant", "Under the pot."), Message("user", "Which one?")]
SYSTEM = Message("system", "Be brief.")


def told(name: str, messages: list[Message]) -> str:
    """What a row is, as text: tokens of its document, then of the conversation."""
    return shown(tokenizer(name), messages)


def shown(of: Tokenizer, messages: list[Message]) -> str:
    chat = of.chat(messages)
    row = of.document_row("DOCUMENT", begins=chat.begins)
    return of.decode([*row, *chat.tokens], special=True)


EXPECTED = {
    "gemma": "<|bos|><start_of_turn>user\nDOCUMENT\n\nWhere is the key?<end_of_turn>\n"
    "<start_of_turn>model\nUnder the pot.<end_of_turn>\n"
    "<start_of_turn>user\nWhich one?<end_of_turn>\n<start_of_turn>model\n",
    "mistral": "<|bos|>[INST] DOCUMENT\n\nWhere is the key?[/INST] Under the pot.</s>"
    "[INST] Which one?[/INST]",
    "base": "DOCUMENT\n\nQuestion: Where is the key?\nAnswer: Under the pot.\n"
    "Question: Which one?\nAnswer:",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_document_comes_first_and_the_question_last(name: str) -> None:
    assert told(name, TALK) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_stands_before_a_document_is_the_same_for_every_conversation(name: str) -> None:
    before = {
        told(name, messages).partition("DOCUMENT")[0]
        for messages in ([QUESTION], TALK, [SYSTEM, QUESTION])
    }
    assert len(before) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemma", "user\nDOCUMENT\n\nBe brief.\n\nWhere is the key?<end_of_turn>"),
        ("mistral", "[INST] DOCUMENT\n\nBe brief.\n\nWhere is the key?[/INST]"),
        ("base", "DOCUMENT\n\nBe brief.\n\nQuestion: Where is the key?"),
    ],
)
def test_instructions_of_the_client_follow_the_document(name: str, expected: str) -> None:
    assert expected in told(name, [SYSTEM, QUESTION])


def test_one_system_message_where_a_template_takes_no_more() -> None:
    single = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('one system message') }}{% endif %}<{{ m.role }}>{{ m.content }}"
        "{% endfor %}"
    )
    of = Tokenizer(backend(single))
    both = [SYSTEM, Message("system", "Be kind."), QUESTION]
    assert shown(of, [SYSTEM, QUESTION]) == ("<system>DOCUMENT\n\nBe brief.<user>Where is the key?")
    assert shown(of, both).startswith("<system>DOCUMENT\n\nBe brief.\n\nBe kind.<user>")


@pytest.mark.parametrize("name", ["gemma", "mistral"])
def test_a_conversation_that_no_question_opens_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="begins with a user message"):
        told(name, [SYSTEM, Message("assistant", "Hello!"), QUESTION])
    with pytest.raises(InvalidRequestError, match="must alternate"):
        told(name, [QUESTION, QUESTION])
