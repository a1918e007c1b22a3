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
# Qwen2.5's with tools, the words of its explanation cut short.
QWEN_TOOLS = (
    "{%- if tools %}{{- '<|im_start|>system\\n' }}"
    "{%- if messages[0].role == 'system' %}{{- messages[0].content }}"
    "{%- else %}{{- 'You are Qwen.' }}{%- endif %}"
    "{{- '\\n\\n# Tools\\n\\nwithin <tools></tools> XML tags:\\n<tools>' }}"
    "{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}"
    "{{- '\\n</tools>\\n\\nFor each call:\\n<tool_call>\\n"
    '{"name": <function-name>, "arguments": <args-json-object>}'
    "\\n</tool_call><|im_end|>\\n' }}"
    "{%- elif messages[0].role == 'system' %}"
    "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'user' or (message.role == 'system' and not loop.first)"
    " or (message.role == 'assistant' and not message.tool_calls) %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant' }}"
    "{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}"
    "{%- for call in message.tool_calls %}{%- set call = call.function %}"
    """{{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}"""
    "{{- call.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}"
    "{%- elif message.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}"
    "{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}"
    "{%- endif %}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
# Llama 3.1's: tools in the first question, one call a turn, which is all of it.
LLAMA_TOOLS = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set system = messages[0].content | trim %}{% set turns = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
    "{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' + system + '<|eot_id|>' }}"
    "{% if tools %}{% set first = turns[0] %}{% set turns = turns[1:] %}"
    "{{ '<|start_header_id|>user<|end_header_id|>\\n\\nRespond in the format "
    '{"name": function name, "parameters": dictionary}.'
    "\\n\\n' }}"
    "{% for tool in tools %}{{ tool | tojson }}{{ '\\n\\n' }}{% endfor %}"
    "{{ first.content | trim + '<|eot_id|>' }}{% endif %}"
    "{% for message in turns %}{% if message.tool_calls %}"
    "{% if message.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    "{% set call = message.tool_calls[0].function %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    """{{ '{"name": "' + call.name + '", "parameters": ' }}"""
    "{{ call.arguments | tojson }}{{ '}<|eot_id|>' }}"
    "{% else %}{% set role = 'ipython' if message.role == 'tool' else message.role %}"
    "{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}"
    "{{ message.content | trim }}{{ '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
WITH_TOOLS = {"qwen": QWEN_TOOLS, "llama": LLAMA_TOOLS}
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
