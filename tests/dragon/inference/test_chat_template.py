"""Where a document stands in a chat template: always behind the same text."""

from __future__ import annotations

import pytest

from dragon.errors import ConfigurationError, InvalidRequestError
from dragon.inference.chat_template import Message
from dragon.inference.tokenizer import Tokenizer
from tests.templates import TEMPLATES, backend, tokenizer

QUESTION = Message("user", "Where is the key?")
TALK = [QUESTION, Message("assistant", "Under the pot."), Message("user", "Which one?")]
SYSTEM = Message("system", "Be brief.")


def told(name: str, messages: list[Message], document: str = "DOCUMENT") -> str:
    """What a row is, as text: tokens of its document, then of the conversation."""
    of = tokenizer(name)
    return shown(of, messages, document)


def shown(of: Tokenizer, messages: list[Message], document: str = "DOCUMENT") -> str:
    chat = of.chat(messages)
    row = of.document_row(document, begins=chat.begins)
    return of.decode([*row, *chat.tokens], special=True)


EXPECTED = {
    "qwen": "<|im_start|>system\nDOCUMENT<|im_end|>\n"
    "<|im_start|>user\nWhere is the key?<|im_end|>\n"
    "<|im_start|>assistant\nUnder the pot.<|im_end|>\n<|im_start|>user\nWhich one?<|im_end|>\n"
    "<|im_start|>assistant\n",
    "llama": "<|bos|><|start_header_id|>system<|end_header_id|>\n\nDOCUMENT<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nWhere is the key?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nUnder the pot.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nWhich one?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma": "<|bos|><start_of_turn>user\nDOCUMENT\n\nWhere is the key?<end_of_turn>\n"
    "<start_of_turn>model\nUnder the pot.<end_of_turn>\n"
    "<start_of_turn>user\nWhich one?<end_of_turn>\n<start_of_turn>model\n",
    "mistral": "<|bos|>[INST] DOCUMENT\n\nWhere is the key?[/INST] Under the pot.</s>"
    "[INST] Which one?[/INST]",
    "base": "DOCUMENT\n\nQuestion: Where is the key?\nAnswer: Under the pot.\n"
    "Question: Which one?\nAnswer:",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_document_comes_first_and_the_question_last(name: str) -> None:
    assert told(name, TALK) == EXPECTED[name]


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_stands_before_a_document_is_the_same_for_every_conversation(name: str) -> None:
    before = {
        told(name, messages).partition("DOCUMENT")[0]
        for messages in ([QUESTION], TALK, [SYSTEM, QUESTION])
    }
    assert len(before) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen", "<|im_start|>system\nDOCUMENT\n\nBe brief.<|im_end|>\n<|im_start|>user\n"),
        ("llama", "<|end_header_id|>\n\nDOCUMENT\n\nBe brief.<|eot_id|><|start_header_id|>user"),
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


def test_a_template_without_a_place_for_documents_is_refused() -> None:
    last = Tokenizer(backend("{{ messages[-1].content }}"))
    with pytest.raises(ConfigurationError, match="no place for a system message"):
        last.document_row("DOCUMENT")
