"""Tokens a second with many answers at once: `python -m bench.throughput [options]`

One device process and one peer, as a person has them, without floors or delay; clients stream the
workload's prompts, each with a connection of its own. Milliseconds a token are what a client sees
between its first and its last piece of text, percentiles over answers.

The clients share the machine with what they measure, so they do little: reading eight streams with
httpx took a third of a core, and a tenth of the tokens with it. They look at what they have read
when an answer is over. A machine shared with others changes its pace within minutes, so the levels
take turns, and each one's turns are added up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from bench.lib import report, workload
from harness import fixed_documents, services
from harness.fixed_documents import Query
from harness.services import Service, Setup

_NOTES = """One device process and one peer with one thread of torch each. Each level asks
`--rounds` prompts a client in each of `--turns`; `speedup` is the tokens a second over those of the
first level, `speedups` that of each turn."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What a client saw: tokens, and when its first and last pieces of text came, in seconds."""

    tokens: int
    first: float
    last: float

    @property
    def ms_per_token(self) -> float:
        """The pace between the first piece and the last."""
        return 1000 * (self.last - self.first) / max(1, self.tokens - 1)


async def stream(device: Service, query: Query, seed: int, options: argparse.Namespace) -> Seen:
    """One answer, read as it comes."""
    body = {
        "model": device.model,
        "messages": [{"role": "user", "content": query.text}],
        "seed": seed,
        "max_tokens": options.tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "dragon": {"aggregation": options.mode},
    }
    payload = json.dumps(body).encode()
    fields = device.headers | {
        "Host": f"127.0.0.1:{device.port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(payload)),
        "Connection": "close",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", device.port)
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + payload)
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"the device says {status.decode().strip()}")
    parts = []
    while data := await reader.read(1 << 16):
        parts.append((time.perf_counter(), data))
    writer.close()
    return seen(parts)


def seen(parts: Sequence[tuple[float, bytes]]) -> Seen:
    """Token times and usage from a stream of events, read in parts at these times."""
    ends = list(accumulate(len(data) for _, data in parts))
    times = []
    usage: dict[str, int] | None = None
    # An event is a line; chunks of HTTP put their lengths on lines of their own.
    for event in re.finditer(rb"^data: (\{.*\})\r?$", b"".join(d for _, d in parts), re.MULTILINE):
        chunk = json.loads(event[1])
        usage = chunk["usage"] or usage
        if any(choice["delta"].get("content") for choice in chunk["choices"]):
            times.append(parts[bisect_left(ends, event.end())][0])
    if usage is None:
        raise RuntimeError("an answer ended before its time")
    return Seen(usage["completion_tokens"], times[0], times[-1])


@dataclass(frozen=True)
class Turn:
    """What the clients of a level saw in one turn, and what it took, in seconds."""

    seen: list[Seen]
    elapsed: float

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(one.tokens for one in self.seen)


async def measure(
    device: Service, queries: Sequence[Query], concurrency: int, options: argparse.Namespace
) -> Turn:
    """`concurrency` clients at once, each asking one prompt after another."""

    async def ask(number: int) -> list[Seen]:
        return [
            await stream(device, queries[n % len(queries)], n, options)
            for n in range(number, concurrency * options.rounds, concurrency)
        ]

    began = time.perf_counter()
    seen = [one for own in await asyncio.gather(*map(ask, range(concurrency))) for one in own]
    return Turn(seen, time.perf_counter() - began)


def summary(concurrency: int, turns: Sequence[Turn], first: Sequence[Turn]) -> Row:
    """The row of a level, beside the same turns of the first one."""

    def rate(of: Sequence[Turn]) -> float:
        return sum(turn.tokens for turn in of) / sum(turn.elapsed for turn in of)

    paces = [one.ms_per_token for turn in turns for one in turn.seen]
    return {
        "concurrency": concurrency,
        "tokens_per_s": round(rate(turns), 1),
        "p50_ms": round(float(np.percentile(paces, 50)), 2),
        "p95_ms": round(float(np.percentile(paces, 95)), 2),
        "answers": len(paces),
        "speedup": round(rate(turns) / rate(first), 2),
        "speedups": [
            round(rate([own]) / rate([other]), 2) for own, other in zip(turns, first, strict=True)
        ],
    }


def run(options: argparse.Namespace) -> list[Row]:
    """A row for each level of concurrency."""
    queries = workload.build(options, options.model)
    levels = [int(part) for part in options.concurrency.split(",")]
    turns: dict[int, list[Turn]] = {level: [] for level in levels}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        fixed_documents.save(queries, data / "documents.json")
        setup = Setup(
            data,
            {"DRAGON_MODEL": options.model, "DRAGON_FIRST_TOKEN_DEADLINE": "3600"},
            documents=data / "documents.json",
            endless=True,
        )
        with services.pair(setup) as (device, _):
            # Every document is met once before, as in use: its keys and values are on disk then.
            warm = argparse.Namespace(mode=options.mode, tokens=2, rounds=1)
            asyncio.run(measure(device, queries, len(queries), warm))
            for _ in range(options.turns):
                for level in levels:
                    turn = asyncio.run(measure(device, queries, level, options))
                    turns[level].append(turn)
                    print(f"{level} at once: {turn.tokens / turn.elapsed:.1f}/s", flush=True)
    return [summary(level, turns[level], turns[levels[0]]) for level in levels]


def draw(rows: Sequence[Row]) -> None:
    """Tokens a second, and milliseconds a token, over the number of answers at once."""
    with report.plot("throughput", 2, x="answers at once", y="") as (rate, pace):
        levels = [row["concurrency"] for row in rows]
        rate.set_title("tokens a second")
        rate.plot(levels, [row["tokens_per_s"] for row in rows], marker="o")
        pace.set_title("ms a token")
        for name in ("p50_ms", "p95_ms"):
            pace.plot(levels, [row[name] for row in rows], marker="o", label=name)


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", default="1,2,4,8,16")
    parser.add_argument("--mode", default="coupled")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4, help="answers of each client in a turn")
    parser.add_argument("--turns", type=int, default=5, help="how often each level is measured")
    workload.add_model(parser)
    workload.add_options(parser, prompts=16)
    options = parser.parse_args()
    rows = run(options)
    draw(rows)
    report.section("throughput", rows, model=options.model, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
