"""Time to first token of DRAGON and of what fetches documents: `python -m bench.ttft [options]`

Real services with a delaying relay between them answer the workload's prompts one after another,
system by system, for several rounds: the machine's speed drifts, so a prompt's time is the median
of its rounds. Every system has been asked all prompts before, so that documents' KV is on disk
where it is kept:

    dragon       both sides write, each with its own documents
    device-only  the device alone, with its own documents
    peer         the same on the peer, with the peer's documents, at the same time
    crcg         one service that has all documents, concatenated
    drcg/text    the device with its own and the peer's documents, fetched as text, concatenated
    drcg/kv      the device with its own documents and the peer's, fetched as KV in bfloat16

Concatenated documents are run from scratch: their KV depends on which ones came together. The clock
starts when the device has the request, and includes the search, here a look-up. An answer of dragon
cannot be there before the device's own prefill is done, nor before the peer's and a trip: its bound
is, answer by answer, the larger of the two. They are asked as dragon asks them, at once, the peer
half a round trip later: here both sides are on one machine, whose cores slow each other down.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt

from bench.lib import report, workload
from harness import fixed_documents, services
from harness.fixed_documents import Query
from harness.network_emulator import Network, Relay, relay
from harness.services import Service, Setup

_TIMEOUT_S = 3600
_READY_S = 0.01  # for threads to start

Row = dict[str, Any]


@dataclass(frozen=True)
class System:
    """A name, a client of the service that is asked, and what it is asked for."""

    name: str
    client: httpx.Client
    model: str
    aggregation: str
    documents: int


def start(
    stack: ExitStack, queries: Sequence[Query], options: argparse.Namespace
) -> tuple[list[list[System]], Service, Relay]:
    """All systems running, those that are asked at once together; the device, and its relay."""
    data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    # However late the cloud is, the first token waits for it.
    env = {
        "DRAGON_MODEL": options.model,
        "DRAGON_DTYPE": options.dtype,
        "DRAGON_FIRST_TOKEN_DEADLINE": str(_TIMEOUT_S),
    }

    def setup(name: str, given: Sequence[Query]) -> Setup:
        (data / name).mkdir()
        fixed_documents.save(given, data / name / "documents.json")
        return Setup(data / name, env, documents=data / name / "documents.json", endless=True)

    public = [replace(query, device=query.cloud) for query in queries]
    everything = [replace(query, device=query.device + query.cloud) for query in queries]
    pair = setup("pair", queries)
    peer = stack.enter_context(services.peer(pair, services.demo_corpus(data)))
    network = stack.enter_context(relay(peer.port))
    device = stack.enter_context(services.device(pair, network.port))
    as_peer = stack.enter_context(services.device(setup("public", public), peer.port))
    central = stack.enter_context(services.device(setup("everything", everything), peer.port))
    count = options.documents

    def system(name: str, service: Service, aggregation: str, documents: int = count) -> System:
        client = service.client(_TIMEOUT_S)
        model = stack.enter_context(client).get("/v1/models").json()["data"][0]["id"]
        return System(name, client, model, aggregation, documents)

    return (
        [
            [system("dragon", device, "coupled")],
            [system("device-only", device, "local"), system("peer", as_peer, "local")],
            [system("crcg", central, "context", 2 * count)],
            [system("drcg/text", device, "context_text")],
            [system("drcg/kv", device, "context_kv")],
        ],
        device,
        network,
    )


def ask(system: System, query: Query, at: float) -> Row:
    """The first token of one answer, asked for at a time of the monotonic clock: its figures."""
    body = {
        "model": system.model,
        "messages": [{"role": "user", "content": query.text}],
        "temperature": 0,
        "max_tokens": 1,
        "dragon": {"aggregation": system.aggregation, "top_k": system.documents},
    }
    time.sleep(max(0.0, at - time.monotonic()))
    reply = system.client.post("/v1/chat/completions", json=body).raise_for_status().json()
    choice: Row = reply["dragon"]["choices"][0]
    return choice


def ask_at_once(systems: Sequence[System], query: Query, rtt_ms: float) -> list[Row]:
    """One answer each, the second's request half a round trip after the first one's."""
    with ThreadPoolExecutor() as pool:
        start = time.monotonic() + _READY_S
        asked = [
            pool.submit(ask, system, query, start + place * rtt_ms / 2000)
            for place, system in enumerate(systems)
        ]
        return [one.result() for one in asked]


def measure(
    systems: Sequence[Sequence[System]],
    network: Relay,
    queries: Sequence[Query],
    rtt_ms: float,
    rounds: int,
) -> list[Row]:
    """All systems on one network. `bytes_down` is what came over the link for an answer."""
    answers: dict[str, list[list[Row]]] = {one.name: [] for turn in systems for one in turn}
    received = dict.fromkeys(answers, 0)
    for _ in range(rounds):
        for turn in systems:
            before = network.down_bytes
            found = [ask_at_once(turn, query, rtt_ms) for query in queries]
            for system, own in zip(turn, zip(*found, strict=True), strict=True):
                answers[system.name].append(list(own))
                received[system.name] += network.down_bytes - before
    return [
        row(name, rtt_ms, one, received[name] / (rounds * len(queries)))
        for name, one in answers.items()
    ]


def row(name: str, rtt_ms: float, rounds: Sequence[Sequence[Row]], bytes_down: float) -> Row:
    """Of one system's answers, [round][prompt]; the row's `answers` are their times in ms."""
    every = [answer for answers in rounds for answer in answers]
    times = [[answer["stats"]["ttft_ms"] for answer in answers] for answers in rounds]
    return {
        "system": name,
        "rtt_ms": rtt_ms,
        "ttft_ms": round(typical(times), 1),
        "bytes_down": round(bytes_down),
        "joint": sum(bool(answer["participation"]) for answer in every) / len(every),
        "sources": sum(len(answer["sources"]) for answer in every) / len(every),
        "answers": times,
    }


def typical(times: npt.ArrayLike) -> float:
    """The mean of the prompts' medians, of times [round][prompt]."""
    return float(np.median(np.asarray(times, np.float64), axis=0).mean())


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """All rows, network by network."""
    queries = workload.build(options, options.model, options.documents)
    rate = options.mbit_s * 1e6 / 8
    with ExitStack() as stack:
        systems, device, network = start(stack, queries, options)
        services.wait_joint(device)
        measure(systems, network, queries, 0.0, 1)  # so that KV is on disk
        for rtt_ms in (float(part) for part in options.rtt_ms.split(",")):
            network.network = Network(rtt_ms / 1000, down_bytes_per_s=rate, up_bytes_per_s=rate)
            network.cut()  # a new connection measures the new round trip
            services.wait_joint(device, rtt_ms)
            for one in measure(systems, network, queries, rtt_ms, options.rounds):
                print({key: value for key, value in one.items() if key != "answers"}, flush=True)
                yield one


def run(options: argparse.Namespace) -> list[Row]:
    """All rows, in the order of the options."""
    return list(rows(options))


def ratios(measured: Sequence[Row]) -> dict[str, float]:
    """Of each network: dragon to what it has to wait for, and the others to dragon."""
    times = {(row["system"], row["rtt_ms"]): np.array(row["answers"]) for row in measured}
    found = {}
    for (system, rtt_ms), own in times.items():
        dragon = typical(times["dragon", rtt_ms])
        if system == "dragon":
            bound = np.maximum(times["device-only", rtt_ms], rtt_ms + times["peer", rtt_ms])
            found[f"dragon/max(device-only, rtt + peer) at {rtt_ms:g} ms"] = dragon / typical(bound)
        else:
            found[f"{system}/dragon at {rtt_ms:g} ms"] = typical(own) / dragon
    return {name: round(value, 3) for name, value in found.items()}


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--rtt-ms", default="0,100,200,300")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--documents", type=int, default=2, help="a side")
    made.add_argument("--mbit-s", type=float, default=math.inf, help="of the link, each way")
    workload.add_model(made)
    made.add_argument("--dtype", default="float32")
    workload.add_options(made, prompts=8)
    return made


_NOTES = """Milliseconds to the first token, the mean of the prompts' medians, with documents' KV on
disk on both sides; that of concatenated documents is computed each time. `peer` is a device that
holds the cloud's documents and answers alone, while `device-only` does: on one machine both sides
are slower together than alone."""


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    options = parser().parse_args()
    measured = run(options)
    columns = [key for key in measured[0] if key != "answers"]
    found = ratios(measured)
    notes = "\n".join([_NOTES, "", *(f"- {name}: {value}" for name, value in found.items())])
    report.section("ttft", measured, model=options.model, columns=columns, notes=notes)
    print(json.dumps({"rows": measured, "ratios": found}))


if __name__ == "__main__":
    main()
