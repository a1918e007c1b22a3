"""Write an exported model as one `.gguf` file, with its tokenizer and chat template:

`python -m harness.gguf_file --model harness/models/dragon-7m --out dragon-7m.gguf`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import (
    MODEL_ARCH,
    GGMLQuantizationType,
    GGUFWriter,
    TokenType,
    get_tensor_name_map,
    quants,
)
from safetensors.numpy import load_file

from dragon.inference.backends.llama_cpp.gguf import ANSWERS

_RANK = 4  # of a random adapter
KINDS = {"f16": GGMLQuantizationType.F16, "q8_0": GGMLQuantizationType.Q8_0}


def write(model: Path, out: Path, kind: str = "f16") -> None:
    """Write the Qwen2 model in the directory `model` to the file `out`; `kind` as in `KINDS`."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    writer = GGUFWriter(out, "qwen2")
    writer.add_name(model.name)
    _describe(writer, config)
    _add_tokenizer(writer, model, config)
    weights = load_file(model / "model.safetensors")
    _add_weights(writer, weights, config["num_hidden_layers"], KINDS[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_adapter(model: Path, out: Path) -> None:
    """Write a random LoRA adapter for the queries and values of the Qwen2 model in `model`."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    writer = GGUFWriter(out, "qwen2")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(_RANK))
    chance = np.random.default_rng(0)
    names = get_tensor_name_map(MODEL_ARCH.QWEN2, config["num_hidden_layers"])
    for name, values in load_file(model / "model.safetensors").items():
        if name.endswith(("q_proj.weight", "v_proj.weight")):
            outputs, inputs = values.shape
            tensor = names.get_name(name, (".weight", ".bias"))
            first = chance.normal(0.0, inputs**-0.5, (_RANK, inputs))
            writer.add_tensor(f"{tensor}.lora_a", first.astype(np.float32))
            writer.add_tensor(
                f"{tensor}.lora_b", chance.normal(0.0, 1.0, (outputs, _RANK)).astype(np.float32)
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    # In a hub configuration, or in one saved by `transformers`.
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    if answers := config.get("dragon", {}).get("answers"):
        writer.add_string(ANSWERS, answers)


def _add_tokenizer(writer: GGUFWriter, model: Path, config: dict[str, Any]) -> None:
    """Its whole `tokenizer.json`, and what llama.cpp needs of it to load the file.

    llama.cpp's own tokenizer differs, but is never used: prompts are token ids.
    """
    text = (model / "tokenizer.json").read_text(encoding="utf-8")
    tokenizer = json.loads(text)
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    pieces = {number: piece for piece, number in tokenizer["model"]["vocab"].items()} | special
    numbers = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([pieces.get(number, f"[PAD{number}]") for number in numbers])
    writer.add_token_types([_type(number, pieces, special) for number in numbers])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    about = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    writer.add_chat_template(about["chat_template"])
    writer.add_string("tokenizer.huggingface.json", text)


def _type(number: int, pieces: dict[int, str], special: dict[int, str]) -> TokenType:
    if number in special:
        return TokenType.CONTROL
    return TokenType.NORMAL if number in pieces else TokenType.UNUSED


def _add_weights(
    writer: GGUFWriter, weights: dict[str, np.ndarray], layers: int, kind: GGMLQuantizationType
) -> None:
    names = get_tensor_name_map(MODEL_ARCH.QWEN2, layers)
    for name, values in weights.items():
        # llama.cpp requires norms and biases in float32.
        own = GGMLQuantizationType.F32 if values.ndim == 1 else kind
        packed = quants.quantize(values.astype(np.float32), own)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), packed, raw_dtype=own)


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kind", choices=list(KINDS), default="f16")
    options = parser.parse_args()
    write(options.model, options.out, options.kind)


if __name__ == "__main__":
    main()
