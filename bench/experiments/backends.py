"""What the product costs beside the engine it runs: `python -m bench.backends [options]`

A model writes a text of given length after a prompt: through the device's API, and by the bare
engine in this process, one after the other, for some rounds; the medians count. `joint` is the same
text with a peer that runs the same file. Then the engine in this process, by itself: two questions
on one document, positions verified in one call, and four answers at once. Every engine has one
thread. The model is a `.gguf` file, or one of the shape of Qwen2.5-0.5B with random weights, made
here and not kept, whose distributions are about as sharp as those of trained models.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from bench.lib import report
from dragon.inference.backends.backend import Backend
from dragon.inference.backends.llama_cpp.context import BATCH, Context, SequencePiece
from dragon.inference.backends.llama_cpp.gguf import GgufMetadata
from dragon.inference.backends.llama_cpp.model import load_weights
from dragon.inference.choice import ModelChoice
from dragon.inference.decoder import Decoder
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from harness import gguf_file, services
from harness.memory import resident
from harness.models import SMALL_MODEL
from harness.services import Service, Setup

Report = dict[str, Any]
Seconds = tuple[float, float]
"""To the first token, and for the tokens after it."""

_VOCABULARY = 151_936
_END = 3
# A factor on the output layer: without it a random model finds all tokens about equally likely.
_SHARPNESS = 12.0
_WORDS = "the harbour lay still and no boat had come in since the storm of the week before . "
_DOCUMENT = 512  # tokens
_QUESTION = 24
_AT_ONCE = 4
_CATCH_UP = 8
_NOTES = f"""`tokens_per_s` and `ttft_ms` are those of answers of the device alone, `bare_` those of
the engine by itself with the same file and prompt, `joint_` those of both sides together without a
delay; `rss_mb` is what the device's process holds. Of the engine in process: `first_ttft_ms` is a
question of {_QUESTION} tokens on a document of {_DOCUMENT}, `second_ttft_ms` another one on the
same; `step_ms` a step there, `catch_up_ms` one of {_CATCH_UP} positions in one call; `four_ms` and
`bare_four_ms` a step of {_AT_ONCE} rows at once."""


def make_model(folder: Path) -> Path:
    """A directory with a random model and a tokenizer of its size."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=_VOCABULARY,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        rope_theta=1_000_000.0,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=_END,
        pad_token_id=4,
    )
    path = folder / "qwen2.5-0.5b-random"
    network = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        network.get_output_embeddings().weight.mul_(_SHARPNESS)
    network.half().save_pretrained(path)
    shutil.copy(SMALL_MODEL / "tokenizer_config.json", path)
    tokenizer = json.loads((SMALL_MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = tokenizer["model"]["vocab"]
    vocab |= {f"filler{number}": number for number in range(8192, _VOCABULARY)}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


def through_the_product(
    device: Service, prompt: str, tokens: int, mode: str, ends: Collection[int]
) -> Seconds:
    """One streamed completion of the device."""
    body = {
        "model": device.model,
        "prompt": prompt,
        "max_tokens": tokens,
        "logit_bias": {str(end): -100 for end in ends},
        "stream": True,
        "dragon": {"aggregation": mode, "cloud": "always" if mode != "local" else "never"},
    }
    began = time.perf_counter()
    first = 0.0
    with httpx.stream(
        "POST", f"{device.url}/v1/completions", json=body, headers=device.headers, timeout=600
    ) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"] and not first:
                first = time.perf_counter()
    return first - began, time.perf_counter() - first


def by_llama_cpp(path: Path, ids: Sequence[int], tokens: int) -> Callable[[], Seconds]:
    """A loop over llama.cpp's C API on a file."""
    weights = load_weights(path, GgufMetadata.read(path).tokens)
    context = Context(weights, sequences=1, positions=4096, most=4096, threads=1)

    def write() -> Seconds:
        context.cut(0, 0)
        began = time.perf_counter()
        for start in range(0, len(ids), BATCH):
            logits = context.decode([SequencePiece(0, start, ids[start : start + BATCH], 1)])
        first = time.perf_counter()
        for place in range(tokens - 1):
            token = int(logits[0].argmax())
            logits = context.decode([SequencePiece(0, len(ids) + place, [token], 1)])
        return first - began, time.perf_counter() - first

    return write


def inside(backend: Backend, rounds: int) -> dict[str, list[float]]:
    """Seconds of the engine's own calls, by name, one value per round."""
    chance = torch.Generator().manual_seed(0)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(100, 8000, (count,), generator=chance).tolist())

    def begun(document: tuple[int, ...]) -> tuple[Decoder, float]:
        decoder = Decoder(backend, [Row(document, 0.0)], tokens(_QUESTION), limit=64)
        assert decoder.acquire()
        began = time.perf_counter()
        decoder.prefill()
        return decoder, time.perf_counter() - began

    def step(slots: Sequence[int], count: int) -> float:
        starts = [_DOCUMENT + _QUESTION] * len(slots)
        fed = torch.tensor([tokens(count)] * len(slots))
        began = time.perf_counter()
        backend.forward(slots, starts, fed, count)
        return time.perf_counter() - began

    found = defaultdict[str, list[float]](list)
    for _ in range(rounds):
        document = tokens(_DOCUMENT)
        decoders, seconds = zip(*(begun(document) for _ in range(_AT_ONCE)), strict=True)
        found["first_ttft"].append(seconds[0])
        found["second_ttft"].append(seconds[1])
        slots = [slot for decoder in decoders for slot in decoder.slots]
        for name, some, count in (
            ("step", slots[:1], 1),
            ("catch_up", slots[:1], _CATCH_UP),
            ("four", slots, 1),
        ):
            found[name].append(median(step(some, count) for _ in range(5)))
        for decoder in decoders:
            decoder.release()
    return found


def bare_four(path: Path, rounds: int) -> float:
    """Seconds of a step of four sequences at once, by llama.cpp alone."""
    weights = load_weights(path, GgufMetadata.read(path).tokens)
    context = Context(weights, sequences=_AT_ONCE, positions=4096, most=4096, threads=1)
    length = _DOCUMENT + _QUESTION
    for sequence in range(_AT_ONCE):
        for start in range(0, length, BATCH):
            some = list(range(100 + start, 100 + min(start + BATCH, length)))
            context.decode([SequencePiece(sequence, start, some, 1)])
    seconds = []
    for _ in range(5 * rounds):
        began = time.perf_counter()
        context.decode([SequencePiece(sequence, length, [7], 1) for sequence in range(_AT_ONCE)])
        seconds.append(time.perf_counter() - began)
        for sequence in range(_AT_ONCE):
            context.cut(sequence, length)
    context.close()
    return median(seconds)


def by_torch(path: Path, ids: Sequence[int], tokens: int) -> Callable[[], Seconds]:
    """The generation loop of `transformers`, on a directory."""
    torch.set_num_threads(1)
    network = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

    def generate(count: int) -> float:
        began = time.perf_counter()
        network.generate(
            torch.tensor([list(ids)]), max_new_tokens=count, min_new_tokens=count, do_sample=True
        )
        return time.perf_counter() - began

    def write() -> Seconds:
        first = generate(1)
        return first, generate(tokens) - first

    return write


def measure(name: str, model: Path, bare: Callable[[], Seconds], options: Any) -> Report:
    """A backend's row."""
    prompt = _WORDS * options.sentences
    ends = Tokenizer.load(model).end_ids
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        setup = Setup(folder, {"DRAGON_MODEL": str(model), "DRAGON_FIRST_TOKEN_DEADLINE": "600"})
        peer = stack.enter_context(services.peer(setup, services.demo_corpus(folder)))
        device = stack.enter_context(services.device(setup, peer.port))
        services.wait_joint(device)
        found: dict[str, list[Seconds]] = {"": [], "bare": [], "joint": []}
        through_the_product(device, "the", 2, "local", ends)  # warms up
        for round_ in range(options.rounds):
            # Another prompt each time: nothing of it is computed already.
            other = f"{round_} {prompt}"
            found[""].append(through_the_product(device, other, options.tokens, "local", ends))
            found["bare"].append(bare())
            found["joint"].append(
                through_the_product(device, other, options.tokens, "coupled", ends)
            )
        rest = options.tokens - 1
        rates = {kind: rest / median(s for _, s in each) for kind, each in found.items()}
        firsts = {kind: 1000 * median(f for f, _ in each) for kind, each in found.items()}
        held = int(resident(device.process.pid))
    backend = ModelChoice(model=str(model), threads=1).load()[1]
    own = inside(backend, options.rounds)
    backend.close()
    llama = model.suffix == ".gguf"
    return {
        "backend": name,
        "tokens_per_s": round(rates[""], 2),
        "bare_tokens_per_s": round(rates["bare"], 2),
        "ttft_ms": round(firsts[""], 1),
        "bare_ttft_ms": round(firsts["bare"], 1),
        "joint_tokens_per_s": round(rates["joint"], 2),
        "rss_mb": held,
        **{f"{kind}_ms": round(1000 * median(each), 1) for kind, each in own.items()},
        "bare_four_ms": round(1000 * bare_four(model, options.rounds), 1) if llama else None,
    }


def _made(folder: Path) -> list[Path]:
    """The random model as a file and as a directory."""
    directory = make_model(folder)
    file = folder / f"{directory.name}.gguf"
    gguf_file.write(directory, file, kind="q8_0")
    return [file, directory]


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=8, help="of the prompt, 18 tokens each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="a .gguf file; by default a random model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        models = [options.model] if options.model else _made(Path(name))
        rows = []
        for model in models:
            tokenizer = Tokenizer.load(model)
            prompt = tokenizer.encode(f"0 {_WORDS * options.sentences}")
            ids = [*tokenizer.bare_row(raw=True), *prompt]
            llama = model.suffix == ".gguf"
            bare = (by_llama_cpp if llama else by_torch)(model, ids, options.tokens)
            rows.append(measure("llama.cpp" if llama else "torch", model, bare, options))
    report.section("backends", rows, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
