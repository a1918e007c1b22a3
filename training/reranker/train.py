"""Train the reranker: `python -m training.reranker.train --data DATA --work WORK --steps 3000`.

The first layers of the packaged all-MiniLM-L6-v2 are trained on to say of a question and a sentence
whether the one is answered by the other. Resumes from WORK/reranker.pt; a progress line says how
often the sentence that answers is ranked first and how well answers are separated from the rest, on
questions that training holds out and on SQuAD 2.0, which is for validation only.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional

from dragon.retrieval.cross_encoder import CrossEncoder
from dragon.retrieval.reranker import EMBEDDED_RERANKER, Pairs, padded, save, untrained
from training.data.chains import ChainSource
from training.data.hard_negatives import Spoiler
from training.data.sources import SCHEMAS, open_facts, open_sources
from training.data.written import read_written
from training.model.optimizer import average_gradients
from training.reranker.data import Group, GroupSource, held_out, name_pool
from training.reranker.validation import squad_groups, two_sided_groups

ROWS_A_STEP, PART = 64, 16
SHAPE_STEP = 8
"""Lengths are padded to a multiple of this: new matrix shapes are costly."""
RATE, HEAD_RATE, WARM_UP = 1e-4, 1e-3, 60
PRINT_STEPS, KEEP_STEPS, MEASURE_STEPS = 20, 60, 480


def loss_of(logits: Tensor, groups: Sequence[Group]) -> Tensor:
    """Cross-entropy of every sentence alone, and of the choice among those of a question."""
    answers = torch.tensor([a for group in groups for a in group.answers], dtype=torch.float32)
    alone = functional.binary_cross_entropy_with_logits(logits, answers)
    choices, start = [], 0
    for group in groups:
        own = slice(start, start := start + len(group.rows))
        if any(group.answers):
            right = answers[own].bool()
            choices.append(torch.logsumexp(logits[own], 0) - torch.logsumexp(logits[own][right], 0))
    return alone + 0.3 * torch.stack(choices).mean() if choices else alone


def measures(scores: Sequence[Sequence[float]], groups: Sequence[Group]) -> tuple[float, float]:
    """How often a sentence that answers is first, and the area under the curve of best scores
    between questions that are answered and those that are not (0.5 where all are).
    """
    first = [
        group.answers[int(np.argmax(own))]
        for own, group in zip(scores, groups, strict=True)
        if any(group.answers)
    ]
    known = [max(own) for own, group in zip(scores, groups, strict=True) if any(group.answers)]
    unknown = [
        max(own) for own, group in zip(scores, groups, strict=True) if not any(group.answers)
    ]
    area = 0.5
    if known and unknown:
        area = float((np.array(known)[:, None] > np.array(unknown)[None]).mean())
    return (float(np.mean(first)) if first else 0.0), area


def batches(source: GroupSource, seed: str, start: int, size: int) -> Iterator[list[Group]]:
    """Groups of `size` rows for each step from `start`, the same whenever it is resumed."""
    step = start
    while True:
        rng = random.Random(f"{seed} {step}")
        groups, rows = list[Group](), 0
        while rows < size:
            group = source.draw(rng)
            room = size - rows
            groups.append(Group(group.question, group.rows[:room], group.answers[:room]))
            rows += len(groups[-1].rows)
        yield groups
        step += 1


def optimizer_of(network: CrossEncoder) -> torch.optim.AdamW:
    """AdamW; the embeddings stay as they are, and the head learns faster."""
    network.bert.embeddings.requires_grad_(False)
    layers = [p for n, p in network.named_parameters() if p.requires_grad and "head" not in n]
    head = list(network.head.parameters())
    return torch.optim.AdamW(
        [{"params": layers, "lr": RATE}, {"params": head, "lr": HEAD_RATE}], weight_decay=0.01
    )


def validation_sets(source: GroupSource, data: Path, rng: random.Random) -> dict[str, list[Group]]:
    """What is measured while training, with `source`'s means and what it leaves out."""
    prose = source.prose
    facts = open_facts("phrasing", prose)
    held = GroupSource(facts, prose, source.spoiler, source.chains)
    written = [row for row in read_written() if held_out(row.text)]
    return {
        "facts": [g for g in (held.fact(rng) for _ in range(150)) if g is not None],
        "human": [g for row in prose.grounded if held_out(row.context)
                  if (g := held.grounded_group(row, rng)) is not None],
        "written": [held.written_group(row, *row.asked[0], rng) for row in written]
        + [held.written_group(row, row.unasked[0], None, rng) for row in written],
        "two-sided": two_sided_groups(),
        "squad": squad_groups(data, 150),
    }  # fmt: skip


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="checkpoint and prepared prose")
    parser.add_argument("--out", type=Path, default=EMBEDDED_RERANKER)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2, help="data-parallel, a thread each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    (options.work / "rendezvous").unlink(missing_ok=True)
    open_sources(options.data, options.work, "train")  # prepares the prose, once
    start_processes(run, (options,), nprocs=options.processes)  # type: ignore[no-untyped-call]


def run(rank: int, options: argparse.Namespace) -> None:
    """One of the processes; the first one measures and keeps what is learnt."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rendezvous = f"file://{options.work.resolve()}/rendezvous"
    dist.init_process_group("gloo", rendezvous, rank=rank, world_size=options.processes)
    facts, prose = open_sources(options.data, options.work, "train")
    rng = random.Random(options.seed)
    spoiler = Spoiler.load(SCHEMAS / "antonyms.txt", name_pool(prose, rng), prose.words["noun"])
    chains = ChainSource(SCHEMAS / "chains.txt", facts.filler)
    source = GroupSource(facts, prose, spoiler, chains)
    validation = {} if rank else validation_sets(source, options.data, rng)
    network, pairs = untrained(), Pairs.load()
    optimizer = optimizer_of(network)
    checkpoint = options.work / "reranker.pt"
    start = 0
    if checkpoint.exists():
        kept = torch.load(checkpoint)
        network.load_state_dict(kept["network"])
        optimizer.load_state_dict(kept["optimizer"])
        start = kept["step"]

    def score(group: Group) -> list[float]:
        network.eval()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            logits = network(*padded([pairs.encode(group.question, row) for row in group.rows]))
        network.train()
        found: list[float] = logits.float().tolist()
        return found

    def keep(step: int) -> None:
        torch.save(
            {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
            checkpoint,
        )
        save(network, options.out)

    total, seen, began = 0.0, 0, time.monotonic()
    drawn = batches(source, f"{options.seed} {rank}", start, ROWS_A_STEP // options.processes)
    for step, groups in enumerate(drawn, start=start):
        if step >= options.steps:
            break
        part = min(1.0, (step + 1) / WARM_UP) * max(0.0, 1 - step / options.steps)
        for group, rate in zip(optimizer.param_groups, (RATE, HEAD_RATE), strict=True):
            group["lr"] = rate * part
        logits = score_all(network, pairs, groups)
        loss = loss_of(logits, groups)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        average_gradients(list(network.parameters()))
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if rank:
            continue
        total, seen = total + loss.item(), seen + ROWS_A_STEP
        if (step + 1) % PRINT_STEPS == 0:
            speed = seen / (time.monotonic() - began)
            print(
                f"step {step + 1} loss {total / PRINT_STEPS:.4f}, {speed:.0f} a second", flush=True
            )
            total, seen, began = 0.0, 0, time.monotonic()
        if (step + 1) % KEEP_STEPS == 0 or step + 1 == options.steps:
            keep(step + 1)
        if (step + 1) % MEASURE_STEPS == 0 or step + 1 == options.steps:
            for name, asked in validation.items():
                first, area = measures([score(group) for group in asked], asked)
                print(f"  {name}: first {first:.3f}, area {area:.3f} of {len(asked)}", flush=True)
            began = time.monotonic()


def score_all(network: CrossEncoder, pairs: Pairs, groups: Sequence[Group]) -> Tensor:
    """Logits of all sentences of all groups, float32 [n], those of one length together."""
    encoded = [pairs.encode(g.question, row) for g in groups for row in g.rows]
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0]))
    logits = torch.empty(len(encoded))
    for start in range(0, len(order), PART):
        part = order[start : start + PART]
        with torch.autocast("cpu", torch.bfloat16):
            made = network(*padded([encoded[i] for i in part], SHAPE_STEP))
        logits = logits.index_copy(0, torch.tensor(part), made.float())
    return logits


if __name__ == "__main__":
    main()
