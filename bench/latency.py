"""Milliseconds a token: `python -m bench.latency [--modes ..] [--rtt-ms ..] [--floors-ms 50/50]`

Real services, a delaying relay between them, questions of the two-sided benchmark asked one after
another. The clock of a row starts when the device has prefilled and stops at the last token. A
floor `device/cloud` is the least a decode step takes on a side, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench import services
from bench.link import Network, relay
from bench.services import Floor, Service, Setup
from bench.two_sided import QUESTIONS, Question, read, upload_notes


@dataclass(frozen=True)
class Row:
    """One cell of the experiment; shares are 0 to 1, `tv` lies between the two sides."""

    mode: str
    rtt_ms: float
    floors_ms: str
    temperature: float
    tokens: int
    ms_per_token: float
    ttft_ms: float
    accept_device: float | None
    accept_cloud: float | None
    tv: float | None
    bytes_per_token: float
    decode_device_ms: float | None
    decode_cloud_ms: float | None
    measured_rtt_ms: float | None

    def bound_ms(self) -> float | None:
        """max(c_device, c_cloud + rtt), what a round trip a token cannot go below."""
        if None in (self.decode_device_ms, self.decode_cloud_ms, self.measured_rtt_ms):
            return None
        assert self.decode_device_ms is not None
        return max(self.decode_device_ms, (self.decode_cloud_ms or 0) + (self.measured_rtt_ms or 0))


def measure(
    device: Service,
    questions: Sequence[Question],
    mode: str,
    rtt_ms: float,
    floors_ms: str,
    temperature: float,
    tokens: int,
) -> Row:
    """Ask all questions in a mode, one after another."""
    choices: list[dict[str, Any]] = []
    lengths = []
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=600) as client:
        for number, question in enumerate(questions):
            body = {
                "model": client.get("/v1/models").json()["data"][0]["id"],
                "messages": [{"role": "user", "content": question.text}],
                "temperature": temperature,
                "seed": number,
                "max_tokens": tokens,
                "dragon": {"aggregation": mode},
            }
            reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
            choices.append(reply["dragon"]["choices"][0]["stats"])
            lengths.append(reply["usage"]["completion_tokens"])

    def mean(name: str, weights: Sequence[int] | None = None) -> float | None:
        values = [choice.get(name) for choice in choices]
        if any(value is None for value in values):
            return None
        return round(float(np.average(np.array(values, dtype=float), weights=weights)), 3)

    return Row(
        mode=mode,
        rtt_ms=rtt_ms,
        floors_ms=floors_ms,
        temperature=temperature,
        tokens=sum(lengths),
        ms_per_token=mean("ms_per_token", lengths) or 0.0,
        ttft_ms=mean("ttft_ms") or 0.0,
        accept_device=mean("accept_device", lengths),
        accept_cloud=mean("accept_cloud", lengths),
        tv=mean("tv", lengths),
        bytes_per_token=round(sum(c["sent_bytes"] for c in choices) / sum(lengths), 1),
        decode_device_ms=mean("decode_device_ms"),
        decode_cloud_ms=mean("decode_cloud_ms"),
        measured_rtt_ms=mean("rtt_ms"),
    )


def run(options: argparse.Namespace) -> Iterator[Row]:
    """All rows, in the order of the options."""
    every = read(QUESTIONS)
    questions = every[: options.prompts // 2] + every[-(options.prompts - options.prompts // 2) :]
    for floors in options.floors_ms.split(","):
        device_ms, cloud_ms = (float(part) for part in floors.split("/"))
        with ExitStack() as stack:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            env = {"DRAGON_MODEL": options.model} if options.model else {}
            setup = Setup(data, env, Floor(device_ms), Floor(cloud_ms))
            peer = stack.enter_context(services.peer(setup, services.demo_corpus(data)))
            network = stack.enter_context(relay(peer.port))
            device = stack.enter_context(services.device(setup, network.port))
            upload_notes(device, questions)
            for rtt_ms in (float(part) for part in options.rtt_ms.split(",")):
                network.network = Network(rtt_ms / 1000)
                network.cut()  # a new connection measures the new round trip
                services.wait_joint(device, rtt_ms)
                for mode in options.modes.split(","):
                    row = measure(
                        device,
                        questions,
                        mode,
                        rtt_ms,
                        floors,
                        options.temperature,
                        options.tokens,
                    )
                    print(row, flush=True)
                    yield row


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="local,tokenwise,coupled")
    parser.add_argument("--rtt-ms", default="0,100,300")
    parser.add_argument("--floors-ms", default="0/0,50/50")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--model", help="a directory or hub name; default: the embedded one")
    rows = list(run(parser.parse_args()))
    by = {(row.mode, row.rtt_ms, row.floors_ms): row.ms_per_token for row in rows}
    ratios = {
        f"coupled/tokenwise at {rtt:g} ms, {floors}": round(value / by["tokenwise", rtt, floors], 3)
        for (mode, rtt, floors), value in by.items()
        if mode == "coupled" and ("tokenwise", rtt, floors) in by
    }
    ratios |= {
        f"tokenwise/bound at {row.rtt_ms:g} ms, {row.floors_ms}": round(row.ms_per_token / bound, 3)
        for row in rows
        if row.mode == "tokenwise" and (bound := row.bound_ms())
    }
    print(json.dumps({"rows": [asdict(row) for row in rows], "ratios": ratios}))


if __name__ == "__main__":
    main()
