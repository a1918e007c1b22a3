"""Chat templates as models bring them, and a tokenizer trained on nothing much that has one."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from dragon.inference.tokenizer import Tokenizer

# ChatML with a system message of its own, like Qwen2.5's without its tools.
QWEN = (
    "{%- if messages[0].role == 'system' %}"
    "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
    "{%- else %}"
    "{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\\n' }}"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if not (message.role == 'system' and loop.first) %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
# Like Llama 3's: a token before everything, and trimmed messages.
LLAMA = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}"
    "{{ message.content | trim }}{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_ALTERNATING = (
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
)
# Like Gemma's: no system messages, and roles that alternate.
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}" + _ALTERNATING + "{{ '<start_of_turn>' }}"
    "{{ 'model' if message.role == 'assistant' else message.role }}"
    "{{ '\\n' + message.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
# Like Mistral's: the system message goes along with the last question.
MISTRAL = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\\n\\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}"
    "{% endif %}{{ bos_token }}{% for message in turns %}" + _ALTERNATING + ""
    "{% if message.role == 'user' %}"
    "{{ '[INST] ' + (system if loop.last else '') + message.content + '[/INST]' }}"
    "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}"
)
TEMPLATES = {"qwen": QWEN, "llama": LLAMA, "gemma": GEMMA, "mistral": MISTRAL, "base": None}


def backend(template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer; names of turns are special tokens in it."""
    core = Backend(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["</s>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(["system user assistant where when my sister lives 雪雪"], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.chat_template = template
    return made


@cache
def tokenizer(name: str) -> Tokenizer:
    """One with this model's template."""
    made = backend(TEMPLATES[name])
    made.bos_token = "<|bos|>"
    return Tokenizer(made)
