"""Which messages need no document, and which exchanges a model is shown before it replies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.generation.events import GenerationRequest
from app.generation.everyday import VECTORS, Everyday, holds_a_chat, nearest, read
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.sampling.params import Sampling
from tests.samples import embedder


def test_the_vectors_are_those_of_the_messages() -> None:
    some = slice(0, None, 60)
    messages = [exchange.message for exchange in read()]
    vectors = np.load(VECTORS)
    assert len(vectors) == len(messages)
    np.testing.assert_allclose(vectors[some], embedder().embed(messages[some]), atol=2e-3)


def test_the_nearest_stands_last() -> None:
    for exchange in [each for each in read() if each.kind != "task"][::150]:
        found = nearest(embedder(), exchange.message, 4)
        assert len(found) == 4
        assert found[-1].message.lower() == exchange.message.lower()


def test_a_task_has_no_examples() -> None:
    assert not nearest(embedder(), "translate 'good evening' to french", 4)


@pytest.mark.parametrize("message", ["perfect", "see you tomorrow", "what's the weather like"])
def test_english_is_not_answered_by_another_language(message: str) -> None:
    assert {exchange.kind for exchange in nearest(embedder(), message, 4)}.isdisjoint(
        {"german", "spanish"}
    )


@pytest.mark.parametrize(("message", "kind"), [("vielen Dank", "german"), ("hola", "spanish")])
def test_another_language_is(message: str, kind: str) -> None:
    assert nearest(embedder(), message, 1)[0].kind == kind


class Judge:
    """Takes a question of two words for small talk."""

    def needless(self, message: str) -> float:
        return 9.0 if len(message.split()) == 2 else -9.0


@pytest.mark.parametrize(
    ("alone", "needless"), [("And silk?", True), ("Is silk warmer than wool?", False)]
)
async def test_what_looks_like_small_talk_may_stand_for_a_question(
    tokenizer: Tokenizer, alone: str, needless: bool
) -> None:
    nothing: Any = None
    small: Any = Judge()
    with ThreadPoolExecutor(1) as pool:
        engine: Any = SimpleNamespace(submit_urgent=pool.submit)
        everyday = Everyday(engine, tokenizer, nothing, small)
        chat = (Message("user", "How long is wool?"), Message("user", "And silk?"))
        request = GenerationRequest((20,), alone, Sampling(), messages=chat)
        assert await everyday.needless(request) is needless


CHATS = {
    "Open WebUI": "### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\n"
    "USER: Who is my therapist?\nASSISTANT: Imogen.\n</chat_history>",
    "LangChain": "Progressively summarize the lines.\nHuman: Why is that?\nAI: It is so.",
    "Markdown": "Name this:\n\n**User:** Who?\n\n**Assistant:** Imogen.",
    "JSON": '[{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Imogen"}]',
    "ChatML": "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\nImogen.<|im_end|>\n",
    "Llama": "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nImogen.<|eot_id|>",
    "Gemma": "<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\nImogen.<end_of_turn>",
    "Mistral": "<s>[INST] Who? [/INST] Imogen.</s>[INST] Name this chat. [/INST]",
    "Command R": "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who?<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Imogen.<|END_OF_TURN_TOKEN|>",
    "DeepSeek": "<\uff5cUser\uff5c>Who?<\uff5cAssistant\uff5c>Imogen.",
    "Granite": "<|start_of_role|>user<|end_of_role|>Who?<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>Imogen.<|end_of_text|>",
    "gpt-oss": "<|start|>user<|message|>Who?<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Imogen.<|end|>",
    "Llama 4": "<|header_start|>user<|header_end|>\n\nWho?<|eot|>"
    "<|header_start|>assistant<|header_end|>\n\nImogen.<|eot|>",
    "Vicuna": "A chat. USER: Who? ASSISTANT: Imogen.</s>",
    "Python": "[{'role': 'user', 'content': 'Who?'}, {'role': 'assistant', 'content': 'Imogen'}]",
    "JSON in JSON": r'"[{\"role\": \"user\", \"content\": \"?\"}, {\"role\": \"assistant\"}, {}]"',
    "YAML": "- role: user\n  content: Who?\n- role: assistant\n  content: Imogen.\n",
    "attributes": '<message role="user">Who?</message><message role="assistant">Imogen.</message>',
    "tags": "<user>Who?</user>\n<assistant>Imogen.</assistant>",
    "headings": "### User\nWho?\n\n### Assistant\nImogen.",
    "brackets": "[user]\nWho?\n[assistant]\nImogen.",
    "a log": "[12:03] User: Who?\n[12:04] Chatbot: Imogen.",
    "a list": "1. User: Who?\n2. ChatGPT: Imogen.",
    "German": "Benutzer: Wer?\nAssistent: Imogen.",
    "Spanish": "Usuario: \u00bfQui\u00e9n?\nAsistente: Imogen.",
    "Phi": "<|user|>\nWho?<|end|>\n<|assistant|>\nImogen.<|end|>",
}
NONE = {
    "a question": "Who is the user of the cabin?",
    "one turn": "User: What is the capital of Kenya?\nAssistant:",
    "one turn of a template": "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n",
    "one turn of others": "<|start|>user<|message|>Who?<|end|><|start|>assistant",
    "one instruction": "[INST] Who? [/INST]",
    "headings without an answer": "### User\nWho?\n\n### Assistant\n",
    "a program": "def told(user: str):\n    model: int = ask(user)\n",
    "examples": "Question: What is the capital of Kenya?\nAnswer: Nairobi.\nQuestion: Of Peru?",
    "an answer alone": "What does 'AI: it is so' mean?",
    "words of a sentence": "The user: who is it? And the assistant: what is that?",
}


@pytest.mark.parametrize("program", CHATS)
def test_a_chat_in_one_text_is_known(program: str) -> None:
    assert holds_a_chat(CHATS[program])


@pytest.mark.parametrize("text", NONE)
def test_other_texts_hold_none(text: str) -> None:
    assert not holds_a_chat(NONE[text])


def test_a_long_text_is_read_at_once() -> None:
    assert not holds_a_chat("user " * 100_000 + "\n" * 100_000 + "*" * 100_000)
