"""Train the model: ``python -m training.train --data DATA --out models/dragon-7m --work WORK``.

The learning rate warms up, stays flat and decays over the last ``--decay`` steps. A run resumes
from its checkpoint; a longer run is the same command with more ``--steps``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from training.batches import Batch, stream
from training.evaluate import Asked, exact_match, fact_questions, hand_written, squad_questions
from training.export import export_model
from training.model import ModelConfig, PackedQwen2
from training.optimizer import make_optimizers, schedule
from training.sources import SCHEMAS
from training.tokenizer import train_tokenizer

EMA_DECAY = 0.998
SHAPE_STEP = 256
"""Predicted tokens are padded to a multiple of this: new matrix shapes are costly."""
HAND_WRITTEN = SCHEMAS.parent / "validation.jsonl"


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    tokens: int = 0


@dataclass
class Losses:
    """Sums over the steps since the last progress line."""

    loss: float = 0.0
    answer: float = 0.0
    right: int = 0
    answers: int = 0
    steps: int = 0


def train_step(model: PackedQwen2, batch: Batch, sums: Losses) -> Tensor:
    """Weighted loss over the predicted tokens of one batch."""
    weights = batch.weights.flatten()
    wanted = weights.nonzero().flatten()
    spare = (weights == 0).nonzero().flatten()
    wanted = torch.cat((wanted, spare[: -len(wanted) % SHAPE_STEP]))
    weights, targets = weights[wanted], batch.targets.flatten()[wanted]
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model(batch.tokens, batch.positions, batch.allowed)
        logits = model.logits(hidden.flatten(0, 1)[wanted])
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    loss = (losses * weights).sum() / weights.sum()
    answer = batch.answers.flatten()[wanted].bool() & (weights > 0)
    with torch.no_grad():
        sums.loss += loss.item()
        sums.answer += losses[answer].mean().item()
        sums.right += int((logits[answer].argmax(-1) == targets[answer]).sum())
        sums.answers += int(answer.sum())
        sums.steps += 1
    return loss


def evaluation_sets(data: Path) -> dict[str, list[Asked]]:
    """What is measured while training."""
    sets = {
        "seen": fact_questions("train", 150),
        "phrasing": fact_questions("phrasing", 250),
        "relation": fact_questions("relation", 250),
        "squad": squad_questions(data, 200),
    }
    if HAND_WRITTEN.exists():
        sets["hand"] = hand_written(HAND_WRITTEN)
    return sets


def save(path: Path, state: dict[str, object]) -> None:
    """Write a checkpoint atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def run(args: argparse.Namespace) -> None:
    """Train from the start or from the checkpoint to the last step, and export."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.out / "tokenizer.json").exists():
        train_tokenizer(args.data, SCHEMAS / "lexicon.txt").save_pretrained(
            args.out, save_jinja_files=False
        )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(args.out)
    model = PackedQwen2(ModelConfig())
    average = PackedQwen2(ModelConfig())
    average.load_state_dict(model.state_dict())
    optimizers = make_optimizers(model, args.matrix_lr, args.other_lr)
    progress = Progress()
    checkpoint = args.work / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        progress = Progress(state["step"], state["tokens"])
    rates = (args.matrix_lr, args.other_lr)
    sets = evaluation_sets(args.data)
    sums, started = Losses(), time.monotonic()
    saved_at = evaluated_at = printed_at = time.monotonic()
    batches = stream(args.data, args.out, args.rows, args.seed + progress.step)

    def checkpoint_now() -> None:
        save(checkpoint, {
            "model": model.state_dict(), "average": average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in optimizers],
            "step": progress.step, "tokens": progress.tokens,
        })  # fmt: skip

    def evaluate_now() -> None:
        results = {name: exact_match(average, tokenizer, asked) for name, asked in sets.items()}
        found = "  ".join(f"{name} {result}" for name, result in results.items())
        print(f"eval {progress.step}  {found}", flush=True)

    while progress.step < args.steps:
        batch = next(batches)
        factor = schedule(progress.step, args.steps, args.warmup, args.decay)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        train_step(model, batch, sums).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += batch.tokens.numel()
        decay = min(EMA_DECAY, (1 + progress.step) / (10 + progress.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(average.parameters()), list(model.parameters()), 1 - decay
            )
        now = time.monotonic()
        if sums.steps == 50:
            speed = sums.steps * batch.tokens.numel() / (now - printed_at)
            print(
                f"{time.strftime('%H:%M:%S')} step {progress.step} "
                f"tokens {progress.tokens / 1e6:.2f}M loss {sums.loss / 50:.3f} "
                f"answer {sums.answer / 50:.3f} accuracy {sums.right / sums.answers:.4f} "
                f"tok/s {speed:.0f} lr {factor:.3f}",
                flush=True,
            )
            sums, printed_at = Losses(), now
        if now - saved_at > args.save_minutes * 60:
            checkpoint_now()
            saved_at = now
        if now - evaluated_at > args.eval_minutes * 60:
            evaluate_now()
            evaluated_at = now
            export_model(average, args.out)
    checkpoint_now()
    evaluate_now()
    export_model(average, args.out)
    print(f"done after {(time.monotonic() - started) / 60:.1f} minutes", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the raw text")
    parser.add_argument("--out", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--decay", type=int, default=1200, help="steps of the final decay")
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--rows", type=int, default=16, help="packed rows a step")
    parser.add_argument("--matrix-lr", type=float, default=0.02)
    parser.add_argument("--other-lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--save-minutes", type=float, default=5)
    parser.add_argument("--eval-minutes", type=float, default=8)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
