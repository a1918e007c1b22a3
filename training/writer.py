"""Train the writer's adapter: `python -m training.writer --model SMOLLM2.gguf --data DATA --out F`.

It learns to make a question stand alone without its conversation, and to talk about everyday things
in its own person. The base is the packaged `.gguf` file with its weights as they are quantised, so
that the adapter also learns to undo what that costs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from app.generation import everyday
from dragon.models.instructions import ALONE, EVERYDAY, transcript
from training.texts import FOLDER, held_out, read_texts

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOKENS = 12_000 if DEVICE == "cuda" else 1_000  # tokens of a step, padding included

RANK, ALPHA = 16, 32
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_GGUF = dict(zip(PROJECTIONS, ("attn_q", "attn_k", "attn_v", "attn_output",
                               "ffn_gate", "ffn_up", "ffn_down"), strict=True))  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Tokens of a prompt and of its reply, the end token included."""

    prompt: list[int]
    reply: list[int]


def load(gguf: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a `.gguf` file of Llama's architecture."""
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    reader = GGUFReader(str(gguf))

    def about(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=about("embedding_length"),
        intermediate_size=about("feed_forward_length"),
        num_hidden_layers=about("block_count"),
        num_attention_heads=about("attention.head_count"),
        num_key_value_heads=about("attention.head_count_kv"),
        rms_norm_eps=about("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": about("rope.freq_base")},
        max_position_embeddings=about("context_length"),
        tie_word_embeddings=True,
    )
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    names = {own: f"mlp.{name}" if name[0] in "gud" else f"self_attn.{name}"
             for name, own in _GGUF.items()}  # fmt: skip
    names |= {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name.startswith("blk."):
            _, number, own, _ = tensor.name.split(".")
            if own in heads:  # back into the order of two halves a head
                split = values.reshape(heads[own], -1, 2, values.shape[1])
                values = split.swapaxes(1, 2).reshape(values.shape)
            name = f"model.layers.{number}.{names[own]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[
                tensor.name.removesuffix(".weight")
            ] + ".weight"
        weights[name] = torch.from_numpy(np.ascontiguousarray(values))
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights)
    return model.to(DEVICE), tokenizer


class Adapted(nn.Module):
    """A linear layer with a low-rank product beside it (LoRA, arXiv 2106.09685)."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(RANK, base.in_features, device=DEVICE))
        self.b = nn.Parameter(torch.zeros(base.out_features, RANK, device=DEVICE))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.base(x)
        dropped = functional.dropout(x, 0.05, self.training)
        return made + (ALPHA / RANK) * functional.linear(functional.linear(dropped, self.a), self.b)


def adapt(model: Any) -> None:
    """Put an adapter beside every projection, and freeze everything else."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name in PROJECTIONS:
                if hasattr(part, name):
                    setattr(part, name, Adapted(getattr(part, name)))


def batches(samples: Sequence[Sample], rng: random.Random) -> list[list[Sample]]:
    """All samples once, batched by length, in random order."""
    order = sorted(samples, key=lambda s: (len(s.prompt) + len(s.reply), rng.random()))
    made, part = list[list[Sample]](), list[Sample]()
    for sample in order:
        if part and (len(part) + 1) * (len(sample.prompt) + len(sample.reply)) > TOKENS:
            made.append(part)
            part = []
        part.append(sample)
    made.append(part)
    rng.shuffle(made)
    return made


def padded(samples: Sequence[Sample]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, mask and targets (-100: ignored), int64 [n, length]."""
    longest = max(len(s.prompt) + len(s.reply) for s in samples)
    tokens, mask = torch.zeros(2, len(samples), longest, dtype=torch.int64)
    targets = torch.full((len(samples), longest), -100)
    for row, sample in enumerate(samples):
        whole = sample.prompt + sample.reply
        tokens[row, : len(whole)] = torch.tensor(whole)
        mask[row, : len(whole)] = 1
        targets[row, len(sample.prompt) : len(whole)] = torch.tensor(sample.reply)
    return tokens.to(DEVICE), mask.to(DEVICE), targets.to(DEVICE)


def loss_of(model: Any, samples: Sequence[Sample]) -> Tensor:
    tokens, mask, targets = padded(samples)
    with torch.autocast(DEVICE, torch.bfloat16):
        states = model.model(input_ids=tokens, attention_mask=mask).last_hidden_state[:, :-1]
        learnt = targets[:, 1:] != -100
        logits = model.lm_head(states[learnt])
    return functional.cross_entropy(logits.float(), targets[:, 1:][learnt])


def tune(model: Any, samples: Sequence[Sample], rate: float, minutes: float, epochs: int) -> None:
    """Train on all samples `epochs` times, or for as long as the minutes allow."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
    rng = random.Random(1)
    planned = [part for _ in range(epochs) for part in batches(samples, rng)]
    model.train()
    began, total = time.monotonic(), 0.0
    for step, part in enumerate(planned):
        share = max(step / len(planned), (time.monotonic() - began) / (60 * minutes))
        if share >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 40) * min(1.0, 1.05 * (1.01 - share))
        loss = loss_of(model, part)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        total += loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} of {len(planned)} loss {total / 50:.3f}, "
                  f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
            total = 0.0
    model.eval()


@torch.inference_mode()
def measured(model: Any, samples: Sequence[Sample]) -> float:
    losses = [loss_of(model, part).item() for part in batches(samples, random.Random(0))]
    return float(np.mean(losses))


@torch.inference_mode()
def written(
    model: Any, tokenizer: Any, prompts: Sequence[list[int]], most: int, end: int
) -> list[str]:
    """Greedy continuations of prompts of about the same length."""
    longest = max(len(prompt) for prompt in prompts)
    tokens, mask = torch.zeros(2, len(prompts), longest, dtype=torch.int64, device=DEVICE)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    with torch.autocast(DEVICE, torch.bfloat16):
        made = model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=most,
                              eos_token_id=end, pad_token_id=end, do_sample=False)  # fmt: skip
    return [tokenizer.decode(row[longest:], skip_special_tokens=True).strip() for row in made]


def save_adapter(model: Any, out: Path) -> None:
    """Write the adapter as llama.cpp reads it: rows of queries and keys are in another order."""
    writer = GGUFWriter(str(out), "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(ALPHA))
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    for number, layer in enumerate(model.model.layers):
        for part in (layer.self_attn, layer.mlp):
            for name in PROJECTIONS:
                if (own := getattr(part, name, None)) is None:
                    continue
                a, b = (each.detach().cpu().half().numpy() for each in (own.a, own.b))
                if name in heads:
                    split = b.reshape(heads[name], 2, -1, b.shape[1])
                    b = split.swapaxes(1, 2).reshape(b.shape)
                stem = f"blk.{number}.{_GGUF[name]}.weight"
                writer.add_tensor(f"{stem}.lora_a", np.ascontiguousarray(a))
                writer.add_tensor(f"{stem}.lora_b", np.ascontiguousarray(b))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# What it learns.


Messages = list[tuple[str, str]]
RATE = 4e-4


def rewritten(row: dict[str, Any]) -> list[tuple[Messages, str]]:
    """The tasks of a conversation: to rewrite its follow-ups so that they stand alone."""
    made: list[tuple[Messages, str]] = []
    talk: Messages = []
    for question, reply, alone in row["turns"]:
        told: Messages = [*talk, ("user", question)]
        if alone is not None or talk:
            made.append(([("system", ALONE), ("user", transcript(told))], alone or question))
        talk = [*told, ("assistant", reply)]
    return made


def tasks(data: Path | None) -> tuple[list[Any], list[Any]]:
    """Tasks to train on, and held-out ones: messages with the wanted reply."""
    kept = {text.name for text in read_texts() if held_out(text.text)}
    learnt, apart = list[Any](), list[Any]()
    for line in (FOLDER / "chats.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        (apart if row["id"] in kept else learnt).extend(rewritten(row))
    for number, each in enumerate(everyday.read()):
        made = [("system", EVERYDAY), ("user", each.message)], each.reply
        (apart if number % 20 == 0 else learnt).append(made)
    if data is not None:
        for row in json.loads((data / "canard_dev.json").read_text("utf-8")):
            turns = row["History"][2:]
            if not turns:
                continue
            talk = [("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(turns)]
            talk = [*talk[-4:], ("user", row["Question"])]
            learnt.append(([("system", ALONE), ("user", transcript(talk))], row["Rewrite"]))
    return learnt, apart


def sampled(tokenizer: Any, messages: Messages, reply: str) -> Sample:
    turns = [{"role": role, "content": text} for role, text in messages]
    shown = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    encode = partial(tokenizer.encode, add_special_tokens=False)
    return Sample(encode(shown), encode(reply + "<|im_end|>"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    learnt, apart = tasks(options.data)
    samples = [sampled(tokenizer, *each) for each in learnt]
    kept = [sampled(tokenizer, *each) for each in apart]
    print(f"{len(samples)} tasks, {sum(len(s.prompt) + len(s.reply) for s in samples)} tokens, "
          f"{len(kept)} apart: loss {measured(model, kept):.3f}", flush=True)  # fmt: skip
    adapt(model)
    tune(model, samples, RATE, options.minutes, options.epochs)
    save_adapter(model, options.out)
    print(f"apart: loss {measured(model, kept):.3f}", flush=True)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    shown = random.Random(3).sample(range(len(kept)), min(40, len(kept)))
    shown.sort(key=lambda n: len(kept[n].prompt))
    for n, text in zip(
        shown, written(model, tokenizer, [kept[n].prompt for n in shown], 60, end), strict=True
    ):
        print(f"{apart[n][0]!r}\n  wanted: {apart[n][1]}\n  wrote:  {text}", flush=True)


if __name__ == "__main__":
    main()
