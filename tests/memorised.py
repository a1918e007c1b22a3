"""A tiny model that knows one text by heart: what is asked of it, it answers with this text.

Trained in seconds, so that services can be tested on an answer that is known beforehand.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import torch
from torch.optim.lr_scheduler import OneCycleLR
from transformers import AutoModelForCausalLM, Qwen2Config

from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL
from tests.model_templates import QWEN_3
from tests.templates import QWEN_TOOLS

_CONTEXT = 2048
_VOCABULARY, _WIDTH, _HEAD = 8192, 128, 32
_NEARNESS = 1.5
_ASSISTANT, _END, _PAD = 2, 3, 4
_BEGUN = "{{- '<|assistant|>' }}"  # the model begins behind a token of its own
_STEPS, _BATCH, _LONGEST_PREFIX, _RATE = 120, 2, 60, 5e-3


def save(directory: Path, text: str, seed: int = 0) -> Path:
    """Train a model to write `text` after any prompt, and save it; its directory.

    The output rows of tokens that the text has not are zero and stay so. The loss counts them
    (all have the logit 0) without computing them, which makes a step ten times cheaper. Attention
    begins with a liking for what is near, whatever it is: so the prompt does not matter, and does
    not have to be long in training. A prompt in the text's own words may still confuse it.
    """
    torch.manual_seed(seed)
    answer = Tokenizer.load(SMALL_MODEL).encode(text)
    sequence = torch.tensor([_ASSISTANT, *answer, _END])
    known, targets = torch.unique(sequence[1:], return_inverse=True)
    targets = targets.expand(_BATCH, -1)
    others = torch.tensor(math.log(_VOCABULARY - len(known)))
    network = AutoModelForCausalLM.from_config(_config())
    network.model.embed_tokens.weight.requires_grad_(False).normal_()
    for layer in network.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            halves = projection.bias.data.view(-1, 2, _HEAD // 2)  # as RoPE pairs them
            halves[:, 0], halves[:, 1] = _NEARNESS, 0.0
    rows = torch.nn.Parameter(0.02 * torch.randn(len(known), _WIDTH))
    trained = [*(p for p in network.model.parameters() if p.requires_grad), rows]
    optimizer = torch.optim.AdamW(trained, lr=_RATE, weight_decay=0.0)
    schedule = OneCycleLR(optimizer, _RATE, total_steps=_STEPS, pct_start=0.1)
    for _ in range(_STEPS):
        length = int(torch.randint(1, _LONGEST_PREFIX, ()))
        # Of few different tokens or of many, the answer's own among them: prompts are like that.
        pool = torch.randint(_VOCABULARY, (_BATCH, int(2 ** (8 * torch.rand(())))))
        pool = torch.where(torch.rand(pool.shape) < 0.5, pool, known[pool % len(known)])
        prefix = pool.gather(1, torch.randint(pool.shape[1], (_BATCH, length)))
        ids = torch.cat([prefix, sequence[:-1].expand(_BATCH, -1)], 1)
        logits = network.model(input_ids=ids).last_hidden_state[:, length:] @ rows.T
        total = torch.logaddexp(logits.logsumexp(-1), others)
        loss = (total - logits.gather(-1, targets[..., None])[..., 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    known_by_heart = logits.argmax(-1).eq(targets).all() and bool((logits.amax(-1) > 0).all())
    if not known_by_heart:
        raise RuntimeError(f"the text was not learnt: the loss is still {loss.item():.3f}")
    with torch.no_grad():
        network.lm_head.weight.zero_()
        network.lm_head.weight[known] = 4 * rows  # as sharp as a text known by heart is
    network.save_pretrained(directory)
    for file in SMALL_MODEL.glob("tokenizer*"):
        shutil.copy(file, directory)
    return directory


def _config() -> Qwen2Config:
    return Qwen2Config(
        vocab_size=_VOCABULARY,
        hidden_size=_WIDTH,
        intermediate_size=2 * _WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=_CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=_END,
        pad_token_id=_PAD,
    )


def save_calling(directory: Path, text: str) -> Path:
    """Save a model that writes `text`, whose chat template has tools in the form of Qwen's.

    It names the tools and does not say how they are called: these would be the text's own words.
    """
    template = QWEN_TOOLS.replace("{{- '<|im_start|>assistant\\n' }}", _BEGUN)
    template = template.replace("tool | tojson", "tool.function.name")
    shape = r'<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    if shape not in template:
        raise RuntimeError("the template does not say how tools are called as it did")
    return _with_template(save(directory, text), template.replace(shape, ""))


def save_thinking(directory: Path, text: str) -> Path:
    """Save a model that writes `text`, its thoughts included, under Qwen3's chat template."""
    template = QWEN_3.replace("{{ '<|im_start|>assistant\\n' }}{% endif %}", _BEGUN + "{% endif %}")
    return _with_template(save(directory, text), template)


def _with_template(model: Path, template: str) -> Path:
    if _BEGUN not in template:
        raise RuntimeError("the template does not begin an answer as it did")
    path = model / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"chat_template": template}), encoding="utf-8")
    return model
