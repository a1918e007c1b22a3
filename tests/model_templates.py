"""Chat templates of seven families, rebuilt: what they render is the models', their text is ours.

Whitespace control is left to `trim_blocks`, which transformers sets.
"""

from __future__ import annotations

_TURN = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
_NEXT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
_CALLS = (
    """{{ '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}"""
    "{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}"
)
_TOOLS = (
    "{{ '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n"
    "You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}"
    "{% for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{% endfor %}"
    "{{ '\\n</tools>\\n\\nFor each function call, return a json object with function name and "
    "arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n"
    '{"name": <function-name>, "arguments": <args-json-object>}'
    "\\n</tool_call><|im_end|>\\n' }}"
)
_RETURNED = (
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}"
    "{% endif %}{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"
)

SMOLLM2 = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\\n' }}{% endif %}" + _TURN + "{% endfor %}" + _NEXT
)
QWEN_2_5 = (
    "{% set own = messages[0].content if messages[0].role == 'system' else "
    "'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' %}"
    "{{ '<|im_start|>system\\n' + own }}{% if tools %}{{ '\\n\\n' }}" + _TOOLS + "{% else %}"
    "{{ '<|im_end|>\\n' }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'tool' %}" + _RETURNED + "{% elif m.tool_calls %}"
    "{{ '<|im_start|>assistant' }}{% if m.content %}{{ '\\n' + m.content }}{% endif %}"
    "{% for call in m.tool_calls %}" + _CALLS + "{% endfor %}{{ '<|im_end|>\\n' }}"
    "{% elif not (m.role == 'system' and loop.first) %}" + _TURN + "{% endif %}{% endfor %}" + _NEXT
)
QWEN_3 = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}"
    "{{ messages[0].content + '\\n\\n' }}{% endif %}" + _TOOLS + "{% elif messages[0].role == "
    "'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}"
    "{% set asked = namespace(last=-1) %}"
    "{% for m in messages %}{% if m.role == 'user' and not (m.content.startswith('<tool_response>')"
    " and m.content.endswith('</tool_response>')) %}{% set asked.last = loop.index0 %}{% endif %}"
    "{% endfor %}"
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% set said = m.content %}{% set thought = '' %}"
    "{% if m.reasoning_content is string %}{% set thought = m.reasoning_content %}"
    "{% elif '</think>' in said %}"
    "{% set thought = said.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
    "{% set said = said.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% if loop.index0 > asked.last and (loop.last or thought) %}"
    "{{ '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + said.lstrip('\\n') }}"
    "{% else %}{{ said }}{% endif %}"
    "{% for call in m.tool_calls or [] %}{% if loop.first and not said %}{{ '' }}{% endif %}"
    """{{ ('' if loop.first and not said else '\\n') + '<tool_call>\\n{"name": "' }}"""
    """{{ call.function.name + '", "arguments": ' }}"""
    "{{ call.function.arguments if call.function.arguments is string else "
    "call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}"
    "{% elif m.role == 'tool' %}" + _RETURNED + "{% elif not (m.role == 'system' and loop.first) %}"
    "" + _TURN + "{% endif %}{% endfor %}" + _NEXT + "{% if add_generation_prompt and "
    "enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}"
    "{% endif %}"
)
LLAMA_3_2 = (
    "{{ bos_token }}{% set today = strftime_now('%d %b %Y') %}"
    "{% if messages[0].role == 'system' %}{% set own = messages[0].content | trim %}"
    "{% set turns = messages[1:] %}{% else %}{% set own = '' %}{% set turns = messages %}"
    "{% endif %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{% if tools %}{{ 'Environment: ipython\\n' }}{% endif %}"
    "{{ 'Cutting Knowledge Date: December 2023\\nToday Date: ' + today + '\\n\\n' + own }}"
    "{{ '<|eot_id|>' }}"
    "{% if tools %}{% if not turns %}{{ raise_exception('there is no first user message') }}"
    "{% endif %}{% set first = turns[0].content | trim %}{% set turns = turns[1:] %}"
    "{{ '<|start_header_id|>user<|end_header_id|>\\n\\n"
    "Given the following functions, please respond with a JSON for a function call with its proper "
    "arguments that best answers the given prompt.\\n\\n"
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and '
    "its value}.Do not use variables.\\n\\n' }}"
    "{% for tool in tools %}{{ tool | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}"
    "{{ first + '<|eot_id|>' }}{% endif %}"
    "{% for m in turns %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    "{% set call = m.tool_calls[0].function %}"
    """{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", ' }}"""
    """{{ '"parameters": ' }}{{ call.arguments | tojson }}{{ '}<|eot_id|>' }}"""
    "{% elif m.role in ('tool', 'ipython') %}"
    "{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{ m.content | tojson }}"
    "{{ '<|eot_id|>' }}{% else %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{{ m.content | trim }}{{ '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
GEMMA_3 = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set own = messages[0].content + '\\n\\n' %}{% set turns = messages[1:] %}"
    "{% else %}{% set own = '' %}{% set turns = messages %}{% endif %}"
    "{% for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\\n' + (own if loop.first else '') }}{{ m.content | trim }}"
    "{{ '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
PHI_4 = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set own = messages[0].content %}{% set turns = messages[1:] %}{% else %}"
    "{% set own = 'You are Mistral Small 3, a Large Language Model (LLM) created by Mistral AI. "
    "The current date is ' + strftime_now('%Y-%m-%d') + '.' %}{% set turns = messages %}{% endif %}"
    "{{ '[SYSTEM_PROMPT]' + own + '[/SYSTEM_PROMPT]' }}"
    "{% for m in turns %}{% if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% elif m.role == 'assistant' %}{{ m.content + eos_token }}{% else %}"
    "{{ raise_exception('Only user, system and assistant roles are supported!') }}"
    "{% endif %}{% endfor %}"
)
MODELS = {
    "smollm2": SMOLLM2,
    "qwen2.5": QWEN_2_5,
    "qwen3": QWEN_3,
    "llama3.2": LLAMA_3_2,
    "gemma3": GEMMA_3,
    "phi4": PHI_4,
    "mistral": MISTRAL,
}
SPECIALS = {
    "smollm2": ("<|im_start|>", "<|im_end|>", []),
    "qwen2.5": (None, "<|im_end|>", ["<|im_start|>"]),
    "qwen3": (None, "<|im_end|>", ["<|im_start|>"]),
    "llama3.2": (
        "<|begin_of_text|>",
        "<|eot_id|>",
        ["<|start_header_id|>", "<|end_header_id|>"],
    ),
    "gemma3": ("<bos>", "<end_of_turn>", ["<start_of_turn>"]),
    "phi4": ("<|endoftext|>", "<|im_end|>", ["<|im_start|>", "<|im_sep|>"]),
    "mistral": (
        "<s>",
        "</s>",
        ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"],
    ),
}
"""Of each: what begins a text, what ends a turn, and the other special tokens."""
TAKE_TOOLS = ("qwen2.5", "qwen3", "llama3.2")
