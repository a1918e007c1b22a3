"""The cost per token of holding an answer to a format: `python -m bench.masks [options]`

A text of a JSON schema is drawn at random, token by token. Measured are the time of a step of the
model, and what the mask adds to it: reading the token, and taking what may not follow out of the
logits. Once for the embedded model, and once for one of the shape of Qwen2.5-0.5B with random
weights and made-up words. Medians of one thread's processor time, in milliseconds: other work on
the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.experiments.backends import make_model
from bench.lib import report
from dragon.inference import decoder, grammar
from dragon.inference.adjustment import Adjustment
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.messages import Work
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL

_FIRST_MADE_UP = 8192
_CONTEXT_TOKENS = 64
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
        "kind": {"enum": ["note", "table", "letter"]},
        "year": {"type": "integer"},
    },
    "required": ["name", "tags", "kind", "year"],
    "additionalProperties": False,
}


def make_words(folder: Path) -> None:
    """Give a model's made-up tokens the look of words: half of them begin with a space."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    chance = random.Random(0)
    for text, number in list(vocabulary.items()):
        if number >= _FIRST_MADE_UP:
            del vocabulary[text]
            letters = "".join(chance.choices("etaoinshrdlcumwfgypbvk", k=chance.randint(3, 9)))
            vocabulary[f"{'Ġ' * (number % 2)}{letters}{number % 97}"] = number
    missing = set(range(_FIRST_MADE_UP, max(vocabulary.values()) + 1)) - set(vocabulary.values())
    vocabulary |= {f"Ġ{number}": number for number in missing}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def step_ms(model: LanguageModel, steps: int) -> float:
    """A step of one row."""
    one = Decoder(model, [Row(tuple(range(5, 5 + _CONTEXT_TOKENS)), 0.0)], (5, 6, 7))
    assert one.acquire()
    one.prefill()
    taken = []
    for number in range(steps):
        began = time.thread_time()
        decoder.step(model, [one], [Work(number, (8,), 1, 0)])
        taken.append(time.thread_time() - began)
    one.release()
    return 1000 * float(np.median(taken))


def mask_ms(tokenizer: Tokenizer, tokens: int) -> float:
    """The time that a mask adds to a token of one row."""
    sampling = Sampling(grammar=grammar.of_schema(_SCHEMA), min_tokens=1)
    held = Adjustment.asked(sampling, (), tokenizer)
    free = Adjustment.asked(Sampling(min_tokens=1), (), tokenizer)
    assert held is not None
    assert free is not None
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, tokenizer.vocab_size, generator=generator)
    text: list[int] = []
    added: list[float] = []
    while len(added) < tokens:
        if text and text[-1] in tokenizer.end_ids:
            text.clear()
        adjusted, with_mask = _timed(held, logits, text)
        _, without = _timed(free, logits, text)
        added.append(with_mask - without)
        text.append(int(torch.multinomial(torch.softmax(adjusted[0], -1), 1, generator=generator)))
    return 1000 * float(np.median(added))


def _timed(
    adjustment: Adjustment, logits: torch.Tensor, text: Sequence[int]
) -> tuple[torch.Tensor, float]:
    began = time.thread_time()
    adjusted = adjustment.of(logits, text)
    return adjusted, time.thread_time() - began


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A row."""
    tokenizer = Tokenizer.load(folder)
    model = LanguageModel.load(str(folder), tokenizer.vocab_size)
    step, mask = step_ms(model, options.steps), mask_ms(tokenizer, options.tokens)
    return {
        "vocabulary": tokenizer.vocab_size,
        "step_ms": round(step, 2),
        "mask_ms": round(mask, 3),
        "share": round(mask / step, 3),
    }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a vocabulary."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        large = make_model(Path(directory))
        make_words(large)
        return [measure(folder, options) for folder in (SMALL_MODEL, large)]


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=500)
    rows = run(parser.parse_args())
    report.section("masks", rows)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
