"""Milliseconds a token, for all modes, networks and floors: `python -m bench.latency [options]`

Real services with a delaying relay between them answer the workload's prompts one after another,
each with `--tokens` tokens. The clock of an answer starts when the device has prefilled and stops
at the last token. A floor `device/cloud` is the least a decode step takes on a side, in
milliseconds. A mode is a request's `aggregation`; after a colon stands the schedule, or
`no-catch-up`, that the device is started anew with.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np

from bench.lib import report, workload
from bench.simulation.replay import simulated_ms, written_ms
from dragon.protocol.aggregator_policy import Schedule
from harness import fixed_documents, services
from harness.fixed_documents import Query
from harness.network_emulator import Jitter, Network, Relay, read_trace, relay
from harness.services import Floor, Service, Setup

MODES = (
    "local,context,sequencewise,tokenwise,exchange,speculative,speculative:paper,"
    "speculative:device,speculative:cloud,speculative:random,coupled:no-catch-up,coupled,oneway"
)
_TIMEOUT_S = 3600
_SENT_BYTES = "dragon_peer_sent_bytes_total"
_NOTES = """Times are means over answers; `accept` is how often a side's own draft was the target,
`tv` the distance between the two sides, `bytes` those of the hot frames of both sides, `joint` the
share of tokens that both sides took part in, `event_ms` a token's time on the event clock, with the
answer's own verdicts, aggregators, delays and round trip, `of_simulation` the time of an answer to
that of the clock, first and last waits alike, `same_text` the share of answers that equal those of
`tokenwise`. `rtt_ms` is emulated, `measured_rtt_ms` what the device saw."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What a row is measured under; `network` names the jitter or the replayed link."""

    mode: str
    network: str
    rtt_ms: float
    floors_ms: str
    temperature: float


def setup_of(mode: str, setup: Setup) -> Setup:
    """The setup of the device that a mode is measured on."""
    _, _, choice = mode.partition(":")
    if choice == "no-catch-up":
        return replace(setup, catch_up=False)
    return replace(setup, schedule=Schedule(choice)) if choice else setup


class Devices:
    """The device under test behind a port of its peer: one at a time, restarted for another setup.

    A context, which ends the last one.
    """

    def __init__(self, peer_port: int) -> None:
        self._peer_port = peer_port
        self._stack = ExitStack()
        self._running: tuple[Setup, Service, httpx.Client] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def started(self, setup: Setup) -> tuple[Service, httpx.Client]:
        """A device of this setup and a client of its API."""
        if self._running is None or self._running[0] != setup:
            self._stack.close()
            device = self._stack.enter_context(services.device(setup, self._peer_port))
            client = device.client(_TIMEOUT_S)
            self._running = setup, device, self._stack.enter_context(client)
        return self._running[1:]


def ask(client: httpx.Client, query: Query, cell: Cell, tokens: int, seed: int) -> Any:
    """The response to one prompt."""
    body = {
        "model": client.get("/v1/models").json()["data"][0]["id"],
        "messages": [{"role": "user", "content": query.text}],
        "temperature": cell.temperature,
        "seed": seed,
        "max_tokens": tokens,
        "dragon": {"aggregation": cell.mode.partition(":")[0]},
    }
    return client.post("/v1/chat/completions", json=body).raise_for_status().json()


def measure(
    client: httpx.Client, peer: Service, queries: Sequence[Query], cell: Cell, tokens: int
) -> Row:
    """Ask all queries, one after another. `answers` keeps the statistics of each."""
    before = peer.metric(_SENT_BYTES)
    replies = [ask(client, query, cell, tokens, seed) for seed, query in enumerate(queries)]
    choices = [reply["dragon"]["choices"][0] for reply in replies]
    answers = [
        choice["stats"] | {"text": reply["choices"][0]["message"]["content"]}
        for choice, reply in zip(choices, replies, strict=True)
    ]
    lengths = [reply["usage"]["completion_tokens"] for reply in replies]
    total = sum(lengths)
    up_bytes = sum(answer["sent_bytes"] for answer in answers)
    down_bytes = peer.metric(_SENT_BYTES) - before
    joint = sum(end - start for choice in choices for start, end in choice["participation"])
    simulated = [
        simulated_ms(cell.mode, answer, choice["verdicts"], choice["aggregators"])
        for answer, choice in zip(answers, choices, strict=True)
    ]
    for answer, length, milliseconds in zip(answers, lengths, simulated, strict=True):
        if milliseconds is not None:
            answer["event_ms"] = milliseconds / length
            answer["of_simulation"] = written_ms(answer, length) / milliseconds

    def mean(name: str, weights: Sequence[int] | None = None) -> float | None:
        values = [answer.get(name) for answer in answers]
        if any(value is None for value in values):
            return None
        return round(float(np.average(np.array(values, dtype=float), weights=weights)), 3)

    return asdict(cell) | {
        "ms_per_token": mean("ms_per_token", lengths),
        "ttft_ms": mean("ttft_ms"),
        "accept_device": mean("accept_device", lengths),
        "accept_cloud": mean("accept_cloud", lengths),
        "tv": mean("tv", lengths),
        "bytes_per_token": round((up_bytes + down_bytes) / total, 1),
        "decode_device_ms": mean("decode_device_ms"),
        "decode_cloud_ms": mean("decode_cloud_ms"),
        "measured_rtt_ms": mean("rtt_ms"),
        "window": mean("window"),
        "event_ms": mean("event_ms", lengths),
        "of_simulation": mean("of_simulation", lengths),
        "joint": round(joint / total, 3),
        "tokens": total,
        "answers": answers,
    }


def networks(options: argparse.Namespace) -> Iterator[tuple[str, float, Network]]:
    """Each network to measure under: its name, its mean round trip in milliseconds, itself."""
    if options.trace:
        trace = read_trace(options.data / "rtt.json", options.trace)
        mean_ms = round(1000 * sum(trace) / len(trace), 1)
        yield options.trace, mean_ms, Network(trace=trace, slice_s=options.slice_s)
        return
    for rtt_ms in (float(part) for part in options.rtt_ms.split(",")):
        yield f"{options.jitter} jitter", rtt_ms, Network(rtt_ms / 1000, Jitter(options.jitter))


def run(options: argparse.Namespace) -> list[Row]:
    """All rows, in the order of the options."""
    queries = workload.build(options, options.model)
    return [
        row
        for floors_ms in options.floors_ms.split(",")
        for row in under_floors(options, queries, floors_ms)
    ]


def under_floors(
    options: argparse.Namespace, queries: Sequence[Query], floors_ms: str
) -> Iterator[Row]:
    """The rows of services started with one pair of floors."""
    temperatures = [float(part) for part in options.temperature.split(",")]
    with ExitStack() as stack:
        setup, peer, network = start(stack, options.model, queries, floors_ms)
        devices = stack.enter_context(Devices(network.port))
        for name, rtt_ms, emulated in networks(options):
            network.network = emulated
            network.cut()  # a new connection measures the new round trip
            for mode, temperature in product(options.modes.split(","), temperatures):
                device, client = devices.started(setup_of(mode, setup))
                services.wait_joint(device, 0 if options.trace else rtt_ms)
                cell = Cell(mode, name, rtt_ms, floors_ms, temperature)
                ask(client, queries[0], cell, tokens=4, seed=0)  # warms up
                # Every mode meets the same slices of a trace, or the same part of the sine.
                network.network = replace(emulated, began=time.monotonic())
                row = measure(client, peer, queries, cell, options.tokens)
                print({key: value for key, value in row.items() if key != "answers"}, flush=True)
                yield row


def start(
    stack: ExitStack, model: str, queries: Sequence[Query], floors_ms: str
) -> tuple[Setup, Service, Relay]:
    """A setup with the queries' documents, a running peer, and the relay before it."""
    data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    documents = data / "documents.json"
    fixed_documents.save(queries, documents)
    # However slow the first token is, all of an answer is to be joint.
    env = {"DRAGON_MODEL": model, "DRAGON_FIRST_TOKEN_DEADLINE": str(_TIMEOUT_S)}
    device_floor, peer_floor = (Floor(float(part)) for part in floors_ms.split("/"))
    setup = Setup(data, env, device_floor, peer_floor, documents, endless=True)
    peer = stack.enter_context(services.peer(setup, services.demo_corpus(data)))
    network = stack.enter_context(relay(peer.port))
    return setup, peer, network


def bound_ms(row: Row) -> float | None:
    """max(c_device, c_cloud + rtt), what a round trip a token cannot go below."""
    device, cloud, rtt = (
        row[name] for name in ("decode_device_ms", "decode_cloud_ms", "measured_rtt_ms")
    )
    return None if None in (device, cloud, rtt) else max(device, cloud + rtt)


def compare_texts(rows: Sequence[Row]) -> None:
    """Note in each row the share of answers that equal those of `tokenwise` in its place."""
    where = ("network", "rtt_ms", "floors_ms", "temperature")
    slow = {tuple(row[k] for k in where): row for row in rows if row["mode"] == "tokenwise"}
    for row in rows:
        other = slow.get(tuple(row[k] for k in where))
        pairs = zip(row["answers"], other["answers"], strict=True) if other else ()
        same = [one["text"] == two["text"] for one, two in pairs]
        row["same_text"] = sum(same) / len(same) if same else None


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Of each condition: every mode to tokenwise, and tokenwise to its bound."""
    found = {}
    for row in rows:
        where = ("network", "rtt_ms", "floors_ms", "temperature")
        place = "{network}, {rtt_ms:g} ms, {floors_ms}, T = {temperature:g}".format(**row)
        for slow in rows:
            if slow["mode"] != "tokenwise" or any(slow[key] != row[key] for key in where):
                continue
            if row is not slow:
                ratio = row["ms_per_token"] / slow["ms_per_token"]
                found[f"{row['mode']}/tokenwise at {place}"] = round(ratio, 3)
            elif bound := bound_ms(row):
                found[f"tokenwise/bound at {place}"] = round(row["ms_per_token"] / bound, 3)
    return found


def draw(rows: Sequence[Row], title: str) -> None:
    """Milliseconds a token over the round trip, a panel for each pair of floors."""
    floors = list(dict.fromkeys(row["floors_ms"] for row in rows))
    with report.plot(title, len(floors), x="round trip, ms", y="ms a token") as axes:
        for one, floors_ms in zip(axes, floors, strict=True):
            one.set_title(f"decode {floors_ms} ms, device/cloud")
            here = [row for row in rows if row["floors_ms"] == floors_ms]
            for kind in dict.fromkeys((row["mode"], row["temperature"]) for row in here):
                line = [row for row in here if (row["mode"], row["temperature"]) == kind]
                one.plot(
                    [row["rtt_ms"] for row in line],
                    [row["ms_per_token"] for row in line],
                    marker="o",
                    label="{}, T = {:g}".format(*kind),
                )


def write(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """The section of these floors and temperatures, or of the trace, and its plot."""
    place = options.trace or f"{options.floors_ms.replace('/', '-')}-T{options.temperature}"
    title = f"latency-{place}"
    if options.eta is not None:
        title += f"-eta{options.eta:g}"
    if not options.trace:
        draw(rows, title)
    compare_texts(rows)
    columns = [key for key in rows[0] if key not in ("answers", "tokens", "network")]
    report.section("latency", rows, title=title, model=options.model, columns=columns, notes=_NOTES)


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--modes", default=MODES)
    made.add_argument("--rtt-ms", default="0,100,200,300")
    made.add_argument("--floors-ms", default="100/30,50/50,30/100", help="device/cloud")
    made.add_argument("--temperature", default="0,1")
    made.add_argument("--tokens", type=int, default=128)
    made.add_argument("--jitter", choices=list(Jitter), default=Jitter.RANDOM)
    made.add_argument("--trace", help="a link of rtt.json to replay, in place of --rtt-ms")
    made.add_argument("--slice-s", type=float, default=1.0, help="seconds a slice of the trace")
    workload.add_model(made)
    workload.add_options(made, prompts=8)
    return made


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    options = parser().parse_args()
    rows = run(options)
    write(rows, options)
    for row in rows:
        for answer in row["answers"]:
            del answer["text"]
    print(json.dumps({"rows": rows, "ratios": ratios(rows)}))


if __name__ == "__main__":
    main()
