"""Make a language model of the embedded model, for the perplexity experiment.

    python -m training.language --wikitext WIKITEXT --out DIR

The embedded model quotes documents; of the text around them it has learnt little, and to predict
WikiText it is hardly better than word frequencies. This goes on training it as a plain language
model on the train split: 512 tokens of an article, in three cases of four with one, two or four
passages of the same article before them, laid out as rows are. It answers no questions afterwards.
"""

from __future__ import annotations

import argparse
import lzma
import math
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

from dragon.inference.tokenizer import Tokenizer
from dragon.models import EMBEDDED_MODEL
from training.data.corpus import detokenize_wikitext
from training.model.optimizer import make_optimizers, schedule

MODEL = EMBEDDED_MODEL
TOKENS, PASSAGE = 512, 64
PASSAGES = (0, 1, 2, 4)
ROWS = 6
_TITLE = re.compile(r" = [^=]+ = $")  # of an article; deeper headings have more signs


def articles(lines: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The tokens of every article long enough for a row."""
    texts: list[list[str]] = []
    for line in lines:
        if _TITLE.match(line) or not texts:
            texts.append([])
        texts[-1].append(detokenize_wikitext(line))
    found = [tokenizer.encode("\n".join(text)) for text in texts]
    return [tokens for tokens in found if len(tokens) > 2 * TOKENS]


def batch(
    found: list[list[int]], weights: list[int], tokenizer: Tokenizer, rng: random.Random
) -> torch.Tensor:
    """Rows of one length, int64 [ROWS, n]; the last `TOKENS` of each are to be predicted."""
    count = rng.choice(PASSAGES)
    rows = []
    for article in rng.choices(found, weights, k=ROWS):
        start = rng.randrange(len(article) - TOKENS)
        row = article[start : start + TOKENS]
        if count:
            places = [rng.randrange(len(article) - PASSAGE) for _ in range(count)]
            passages = [token for at in places for token in article[at : at + PASSAGE]]
            between = tokenizer.encode("\n\n")
            row = [*tokenizer.document_row(""), *passages, *between, *row]
        rows.append(row)
    return torch.tensor(rows)


def train(path: Path, lines: Sequence[str], steps: int, seed: int) -> Any:
    """The model in `path` after `steps` more; prints the loss of a token now and then."""
    tokenizer = Tokenizer.load(path)
    network = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).train()
    found = articles(lines, tokenizer)
    weights = [len(article) for article in found]
    optimizers = make_optimizers(network, 0.01, 1e-3)
    rates = [[group["lr"] for group in o.param_groups] for o in optimizers]
    rng = random.Random(seed)
    average = math.nan
    for step in range(steps):
        factor = schedule(step, steps, min(20, steps), steps // 2)
        for optimizer, own in zip(optimizers, rates, strict=True):
            for group, rate in zip(optimizer.param_groups, own, strict=True):
                group["lr"] = rate * factor
        rows = batch(found, weights, tokenizer, rng)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = network.model(input_ids=rows[:, :-1]).last_hidden_state
            logits = network.lm_head(hidden[:, 1 - TOKENS :])
        wanted = rows[:, 1 - TOKENS :].flatten()
        loss = functional.cross_entropy(logits.float().flatten(0, 1), wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        average = loss.item() if step == 0 else 0.95 * average + 0.05 * loss.item()
        if (step + 1) % 10 == 0 or step + 1 == steps:
            print(f"step {step + 1} of {steps}, loss {average:.3f}", flush=True)
    return network.eval()


def main() -> None:
    """Train, and save beside the tokenizer's files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wikitext", type=Path, required=True, help="holds train.txt.xz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with lzma.open(options.wikitext / "train.txt.xz", "rt", encoding="utf-8") as text:
        lines = text.readlines()
    network = train(options.model, lines, options.steps, options.seed)
    network.half().save_pretrained(options.out)
    for file in options.model.glob("tokenizer*"):
        shutil.copy(file, options.out)


if __name__ == "__main__":
    main()
