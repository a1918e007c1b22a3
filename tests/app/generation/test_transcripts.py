"""Chats in one text, as programs send them, and texts that are none."""

from __future__ import annotations

import pytest

from app.generation.transcripts import holds_a_chat

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
def test_other_texts_are_none(text: str) -> None:
    assert not holds_a_chat(NONE[text])


def test_a_long_text_is_read_at_once() -> None:
    assert not holds_a_chat("user " * 100_000 + "\n" * 100_000 + "*" * 100_000)
