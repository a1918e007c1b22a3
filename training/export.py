"""Write a trained model in the form that ``transformers`` loads."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file

from training.model.model import ModelConfig, PackedQwen2


def hub_config(config: ModelConfig) -> dict[str, object]:
    """The same shape as a ``Qwen2Config``."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.rms_eps,
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "rope_theta": config.rope_theta,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": 3,
        "pad_token_id": 4,
        "torch_dtype": "float16",
    }


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def export_model(model: PackedQwen2, out: Path) -> None:
    """Write weights (float16) and configuration in place; readers never see half a file."""
    out.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.detach().to(torch.float16).contiguous()
        for name, value in model.state_dict().items()
    }
    temporary = out / "model.safetensors.tmp"
    save_file(weights, temporary, metadata={"format": "pt"})
    temporary.chmod(0o644)
    _replace(out / "config.json", json.dumps(hub_config(model.config), indent=2) + "\n")
    generation = {"eos_token_id": 3, "pad_token_id": 4, "do_sample": False, "max_new_tokens": 128}
    _replace(out / "generation_config.json", json.dumps(generation, indent=2) + "\n")
    os.replace(temporary, out / "model.safetensors")


def main() -> None:
    """Export the averaged weights of a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder of the exported model")
    args = parser.parse_args()
    model = PackedQwen2(ModelConfig())
    model.load_state_dict(torch.load(args.work / "checkpoint.pt")["average"])
    export_model(model, args.out)


if __name__ == "__main__":
    main()
