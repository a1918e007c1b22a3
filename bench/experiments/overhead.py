"""What a token costs beside the model: `python -m bench.overhead [options]`

The link's own share, on one side and for one position: *encode* (a distribution cut to its nucleus,
and the frame), *decode* (the other side's frame), *mix* (both sides judged), *dispatch* (from the
event loop to the engine's thread and back, with nothing done there). Distributions are the model's
at temperature 1, of both kinds of `bench.wire`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch

from bench.experiments import wire
from bench.lib import distributions, report, workload
from bench.lib.distributions import Pair
from dragon.inference.choice import ModelChoice
from dragon.inference.engine import Engine
from dragon.link import registry
from dragon.protocol.messages import Draft
from dragon.protocol.rules.shared_noise import TargetCache
from dragon.protocol.state import Agreement
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from dragon.sampling.role import Role

Row = dict[str, Any]

_NOTES = """Milliseconds a token on one side; `sum` is of the means."""


def timed(call: Callable[[Pair], object], pairs: Sequence[Pair]) -> list[float]:
    """Milliseconds of a call on each pair; the first tenth warms up."""
    taken = []
    for pair in [*pairs[: len(pairs) // 10], *pairs]:
        began = time.perf_counter()
        call(pair)
        taken.append(1000 * (time.perf_counter() - began))
    return taken[len(pairs) // 10 :]


def frame(side: Side) -> registry.Frame:
    """The frame of a side's draft."""
    token = int(side.wire.ids[0])
    return registry.encode(Draft(0, 0, 100, 99, 1 << 31, token, 30_000, side), 1)


def dispatched(model: str, times: int) -> list[float]:
    """Milliseconds from the event loop to the engine's thread and back."""
    engine = Engine(ModelChoice(model=model, threads=1).load()[1])
    taken = asyncio.run(_dispatch(engine, times))
    engine.stop()
    return taken


async def _dispatch(engine: Engine, times: int) -> list[float]:
    loop = asyncio.get_running_loop()
    taken = []
    for _ in range(times):
        back = asyncio.Event()

        def wake(_: Future[None], back: asyncio.Event = back) -> None:
            loop.call_soon_threadsafe(back.set)

        began = time.perf_counter()
        engine.submit_urgent(lambda: None).add_done_callback(wake)
        await back.wait()
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def measure(
    name: str, pairs: Sequence[Pair], dispatch: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """A row for each part, and their sum."""
    frames = {id(pair): frame(pair.cloud) for pair in pairs}
    judge = TargetCache(Role.DEVICE, Sampling(), Agreement())
    parts = {
        "encode": timed(lambda pair: (cut(pair.full_device.numpy()), frame(pair.device)), pairs),
        "decode": timed(
            lambda pair: registry.decode(frames[id(pair)], Role.CLOUD, pair.full_device.numel()),
            pairs,
        ),
        "mix": timed(lambda pair: judge.target(pair.device, pair.cloud, 100), pairs),
        "dispatch": dispatch,
    }
    for part, taken in parts.items():
        yield {
            "distributions": name,
            "part": part,
            "mean_ms": round(float(np.mean(taken)), 3),
            "p95_ms": round(float(np.percentile(taken, 95)), 3),
        }
    total = sum(float(np.mean(taken)) for taken in parts.values())
    yield {"distributions": name, "part": "sum", "mean_ms": round(total, 3), "p95_ms": None}


def run(options: argparse.Namespace) -> list[Row]:
    """Rows of both kinds of distributions."""
    torch.set_num_threads(1)
    kinds = {
        "questions": wire.questions(options.prompts),
        "prompts": workload.build(options, options.model),
    }
    dispatch = dispatched(options.model, 500)
    return [
        row
        for name, queries in kinds.items()
        for row in measure(
            name, distributions.collect(queries, options.model, options.tokens), dispatch
        )
    ]


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=48, help="of an answer, at most")
    workload.add_model(parser)
    workload.add_options(parser, prompts=8)
    options = parser.parse_args()
    rows = run(options)
    report.section("overhead", rows, model=options.model, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
