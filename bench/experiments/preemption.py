"""What abandoning stale steps between layers saves: `python -m bench.preemption [options]`

One generation steps in the engine. At a random moment of each step its result is no longer wanted,
as when the other side's frame rejects a draft. With preemption the step is then marked stale;
without, it runs to its end. Measured are the time from that moment until the engine is free, and
the share of a whole step's time that was saved. A floor is the least a step takes, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.lib import report, workload
from dragon.inference.choice import ModelChoice
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine, Outcome
from dragon.inference.rows import Row
from dragon.protocol.messages import Work
from harness.throttle import slow_down

_DOCUMENT_TOKENS = 64
_CONVERSATION_TOKENS = 32
_WORK = Work(0, (1,), 1, 0)


def step(engine: Engine, decoder: Decoder, unwanted_after: float, *, preempt: bool) -> float:
    """Seconds of a step whose result is no longer wanted after `unwanted_after` seconds."""
    done = threading.Event()
    ended = 0.0

    def note(_: Outcome) -> None:
        nonlocal ended
        ended = time.perf_counter()
        done.set()

    began = time.perf_counter()
    request = engine.run(decoder, _WORK, note)
    if not done.wait(unwanted_after):
        request.stale = preempt
        done.wait()
    return ended - began


def measure(
    engine: Engine, decoder: Decoder, steps: int, floor_ms: float
) -> Iterator[dict[str, Any]]:
    """A row without preemption, and one with it."""
    whole = [step(engine, decoder, 60.0, preempt=False) for _ in range(steps)]
    step_s = float(np.median(whole))
    for preempt in (False, True):
        chance = random.Random(0)
        moments = [chance.uniform(0, step_s) for _ in range(steps)]
        taken = [step(engine, decoder, moment, preempt=preempt) for moment in moments]
        # Steps that ended before the request to stop are not counted.
        free = [1000 * (t - m) for t, m in zip(taken, moments, strict=True) if t > m]
        yield {
            "floor_ms": floor_ms,
            "preemption": preempt,
            "steps": len(free),
            "step_ms": round(1000 * step_s, 2),
            "free_after_ms": round(float(np.mean(free)), 2),
            "free_after_p95_ms": round(float(np.percentile(free, 95)), 2),
            "saved_share": round(1 - float(np.mean(taken)) / step_s, 3),
        }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, floor by floor."""
    torch.set_num_threads(options.threads)
    choice = ModelChoice(model=options.model, threads=options.threads)
    chance = random.Random(0)
    rows = []
    for floor_ms in (float(part) for part in options.floors_ms.split(",")):
        tokenizer, model = choice.load()

        def tokens(count: int, size: int = tokenizer.vocab_size) -> tuple[int, ...]:
            return tuple(chance.randrange(size) for _ in range(count))

        documents = [Row(tokens(_DOCUMENT_TOKENS), 0.0) for _ in range(options.documents)]
        if floor_ms:
            slow_down(model, floor_ms)
        engine = Engine(model)
        decoder = engine.open(documents, tokens(_CONVERSATION_TOKENS))
        decoder.prefilled.result()
        for row in measure(engine, decoder, options.steps, floor_ms):
            print(row, flush=True)
            rows.append(row)
        engine.stop()
    return rows


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floors-ms", default="0,50")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--documents", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    workload.add_model(parser)
    options = parser.parse_args()
    rows = run(options)
    report.section("preemption", rows, model=options.model)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
