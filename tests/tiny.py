"""Tiny random models saved to disk: real architectures, loaded as any other, fast to run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    OPTConfig,
    PretrainedConfig,
    Qwen2Config,
)

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.engine import Engine
from harness.models import SMALL_MODEL

VOCABULARY = 8192
CONTEXT = 512
ARCHITECTURES = ("qwen2", "llama", "opt")


def config(architecture: str, context: int = CONTEXT, layers: int = 3) -> PretrainedConfig:
    """A few layers of an architecture, with the embedded model's vocabulary."""
    common = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": context,
        "bos_token_id": None,
        "eos_token_id": 3,
        "pad_token_id": 4,
    }
    if architecture == "opt":
        return OPTConfig(**common, ffn_dim=128, word_embed_proj_dim=64, dropout=0.0)
    kind = Qwen2Config if architecture == "qwen2" else LlamaConfig
    return kind(**common, num_key_value_heads=2, intermediate_size=128)


def save(
    directory: Path,
    architecture: str = "qwen2",
    seed: int = 0,
    *,
    context: int = CONTEXT,
    layers: int = 3,
) -> Path:
    """Save a random model, with the embedded model's tokenizer; its directory.

    The output layer is scaled up, so that distributions are as sharp as those of trained models
    and hardly ever end the text.
    """
    torch.manual_seed(seed)
    network = AutoModelForCausalLM.from_config(config(architecture, context, layers))
    with torch.no_grad():
        network.get_output_embeddings().weight.mul_(12.0)
        network.get_output_embeddings().weight[3] = 0.0
    network.save_pretrained(directory)
    for file in SMALL_MODEL.glob("tokenizer*"):
        shutil.copy(file, directory)
    return directory


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """A running engine of one, saved in a folder."""
    running = Engine(LanguageModel.load(save(folder), VOCABULARY))
    try:
        yield running
    finally:
        running.stop()


def freed(engine: Engine) -> None:
    """Wait until the engine has freed what was closed before this call."""
    for _ in range(2):  # the first may run in the turn that was under way
        engine.submit_urgent(lambda: None).result(300)
