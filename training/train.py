"""Train the model: ``python -m training.train --data DATA --out MODEL --work WORK``.

The learning rate warms up, stays flat and decays over the last ``--decay`` steps. A run resumes
from its checkpoint; a longer run is the same command with more ``--steps``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from pathlib import Path

import torch
import torch.distributed as dist
from tokenizers import Tokenizer
from torch import Tensor
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional

from training.data.batches import Batch, to_batch
from training.data.packing import FIRST_WEIGHT, Plan, Rows, produce
from training.data.sources import SCHEMAS
from training.evaluate import Asked, exact_match, fact_questions, hand_written, squad_questions
from training.export import export_model
from training.model.guidance import WEIGHTS as GUIDANCE
from training.model.guidance import guidance_costs, watch, word_ids
from training.model.linking import link_guided_heads
from training.model.model import ModelConfig, PackedQwen2
from training.model.optimizer import agreed, average_gradients, make_optimizers, schedule
from training.model.wiring import lift_embeddings, wire_copying

EMA_DECAY = 0.995
PRINT_STEPS = 25
LIFT_STEPS = 100
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
    first: int = 0
    firsts: int = 0
    guidance: Tensor = field(default_factory=lambda: torch.zeros(len(GUIDANCE)))
    steps: int = 0


def train_step(model: PackedQwen2, batch: Batch, sums: Losses, words: Tensor) -> Tensor:
    """Weighted loss over the predicted tokens of one batch."""
    weights = batch.weights.flatten()
    wanted = weights.nonzero().flatten()
    spare = (weights == 0).nonzero().flatten()
    wanted = torch.cat((wanted, spare[: -len(wanted) % SHAPE_STEP]))
    weights, targets = weights[wanted], batch.targets.flatten()[wanted]
    with torch.autocast(batch.tokens.device.type, torch.bfloat16):
        hidden = model(batch.tokens, batch.positions, batch.allowed)
        logits = model.logits(hidden.flatten(0, 1)[wanted])
    losses = functional.cross_entropy(logits.float(), targets, reduction="none")
    loss = (losses * weights).sum() / weights.sum()
    guidance = guidance_costs(model, batch, words)
    answer = batch.answers.flatten()[wanted].bool() & (weights > 0)
    with torch.no_grad():
        sums.loss += loss.item()
        sums.answer += losses[answer].sum().item()
        sums.right += int((logits[answer].argmax(-1) == targets[answer]).sum())
        sums.answers += int(answer.sum())
        sums.steps += 1
        first = weights == FIRST_WEIGHT
        sums.first += int((logits[first].argmax(-1) == targets[first]).sum())
        sums.firsts += int(first.sum())
        sums.guidance += guidance.detach() / PRINT_STEPS
    return loss + (guidance * torch.tensor(GUIDANCE)).sum()


def evaluation_sets(data: Path) -> dict[str, list[Asked]]:
    """What is measured while training."""
    sets = {
        "seen": fact_questions("train", 60),
        "phrasing": fact_questions("phrasing", 120),
        "relation": fact_questions("relation", 160),
        "squad": squad_questions(data, 80),
    }
    if HAND_WRITTEN.exists():
        sets["hand"] = hand_written(HAND_WRITTEN)
    return sets


def link(
    model: PackedQwen2,
    average: PackedQwen2,
    optimizers: list[torch.optim.Optimizer],
    batch: Batch,
) -> None:
    """Connect the guided heads, alike in every process, and forget the momentum."""
    link_guided_heads(model, [batch])
    if dist.is_initialized():
        for param in model.parameters():
            dist.broadcast(param.data, 0)
    average.load_state_dict(model.state_dict())
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for name in ("momentum", "exp_avg"):
                if name in state:
                    state[name].zero_()


def save(path: Path, state: dict[str, object]) -> None:
    """Write a checkpoint atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def run(rank: int, args: argparse.Namespace, queue: Queue[Rows]) -> None:
    """Train from the start or from the checkpoint to the last step, and export."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    if args.device != "cpu":
        torch.set_default_device(args.device)
    torch.set_flush_denormal(True)
    if args.processes > 1:
        rendezvous = f"file://{args.work.resolve()}/rendezvous"
        dist.init_process_group("gloo", rendezvous, rank=rank, world_size=args.processes)
    tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    words = word_ids(tokenizer.get_vocab())
    model = PackedQwen2(ModelConfig())
    wire_copying(model)
    watch(model)
    average = PackedQwen2(ModelConfig())
    average.load_state_dict(model.state_dict())
    optimizers = make_optimizers(model, args.matrix_lr, args.other_lr)
    progress = Progress()
    checkpoint = args.work / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=args.device)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        progress = Progress(state["step"], state["tokens"])
    rates = (args.matrix_lr, args.other_lr)
    first = rank == 0
    sets = evaluation_sets(args.data) if first else {}
    sums, started = Losses(), time.monotonic()
    saved_at = evaluated_at = printed_at = time.monotonic()

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
        batch = to_batch(*queue.get())
        if progress.step == args.link_step:
            link(model, average, optimizers, batch)
        factor = schedule(progress.step, args.steps, args.warmup, args.decay)
        if args.minutes:
            left = args.minutes - (time.monotonic() - started) / 60
            factor = agreed(min(factor, left / args.decay_minutes))
            if factor <= 0:
                break
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        torch.autograd.backward(train_step(model, batch, sums, words))
        average_gradients(list(model.parameters()))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        if progress.step % LIFT_STEPS == 0:
            lift_embeddings(model)
        progress.tokens += batch.tokens.numel() * args.processes
        decay = min(EMA_DECAY, (1 + progress.step) / (10 + progress.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - decay)
        now = time.monotonic()
        if not first:
            continue
        if sums.steps == PRINT_STEPS:
            speed = sums.steps * batch.tokens.numel() * args.processes / (now - printed_at)
            print(
                f"{time.strftime('%H:%M:%S')} step {progress.step} "
                f"tokens {progress.tokens / 1e6:.2f}M loss {sums.loss / PRINT_STEPS:.3f} "
                f"answer {sums.answer / max(1, sums.answers):.3f} "
                f"copied {sums.right / max(1, sums.answers):.4f} "
                f"chosen {sums.first / max(1, sums.firsts):.3f} "
                f"guidance {' '.join(f'{cost:.2f}' for cost in sums.guidance.tolist())} "
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
    if not first:
        return
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
    parser.add_argument("--steps", type=int, default=4500)
    parser.add_argument("--decay", type=int, default=1000, help="steps of the final decay")
    parser.add_argument("--minutes", type=float, help="end by then, having decayed")
    parser.add_argument("--decay-minutes", type=float, default=30)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--link-step", type=int, default=2100, help="when guided heads are linked")
    parser.add_argument("--rows", type=int, default=2, help="packed rows a step and process")
    parser.add_argument("--matrix-lr", type=float, default=0.008)
    parser.add_argument("--other-lr", type=float, default=8e-4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, default=2, help="data-parallel, on a processor")
    parser.add_argument("--threads", type=int, default=1, help="threads a process")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--save-minutes", type=float, default=5)
    parser.add_argument("--eval-minutes", type=float, default=8)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.work / "rendezvous").unlink(missing_ok=True)
    tokenizer_file = args.out / "tokenizer.json"
    if not tokenizer_file.exists():
        from training.model.tokenizer import save_tokenizer, train_tokenizer

        save_tokenizer(train_tokenizer(args.data, SCHEMAS / "lexicon.txt"), args.out)
    context = multiprocessing.get_context("spawn")
    queue: Queue[Rows] = context.Queue(maxsize=64)
    checkpoint = args.work / "checkpoint.pt"
    done = torch.load(checkpoint, map_location="cpu")["step"] if checkpoint.exists() else 0
    plan = Plan(
        args.data, args.work, tokenizer_file, args.rows, args.processes, args.seed + done, done
    )
    producer = context.Process(
        target=produce,
        args=(queue, plan),
        daemon=True,
    )
    producer.start()
    if args.processes > 1:
        start_processes(run, (args, queue), nprocs=args.processes)  # type: ignore[no-untyped-call]
    else:
        run(0, args, queue)


if __name__ == "__main__":
    main()
