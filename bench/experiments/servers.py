"""Model servers on both sides over a slow link: `python -m bench.servers [options]`

A server on each side writes a token in no less than a floor of milliseconds; a relay between device
and peer delays. Beside each answer stands the event simulation with the answer's own verdicts and
round trip, and with the servers' time of a token.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from bench.experiments.likeliest import token_ms
from bench.lib import report
from bench.simulation.replay import simulated_ms, written_ms
from dragon.inference.backends.model_server.model import ModelServer
from dragon.inference.tokenizer import Tokenizer
from harness import services
from harness.faults.openai_server import process
from harness.models import SMALL_MODEL
from harness.network_emulator import Network, relay
from harness.services import Setup
from harness.two_sided import QUESTIONS, read

_NOTES = """`token_ms` is what the servers take for a token, streamed; `of_simulation` the time of
an answer to that of the event simulation with its verdicts, its round trip and `token_ms`."""

Row = dict[str, Any]


def answer(client: httpx.Client, question: str, seed: int, options: argparse.Namespace) -> Row:
    """The device's reply to a question, with its number of tokens."""
    body = {
        "model": "dragon-7m",
        "messages": [{"role": "user", "content": question}],
        "temperature": options.temperature,
        "seed": seed,
        "max_tokens": options.tokens,
        "logit_bias": {str(end): -100 for end in Tokenizer.load(SMALL_MODEL).end_ids},
        "dragon": {"aggregation": "oneway"},
    }
    reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    choice: Row = reply["dragon"]["choices"][0]
    return choice | {"tokens": reply["usage"]["completion_tokens"]}


def measure(options: argparse.Namespace) -> list[Row]:
    """A row for every round trip."""
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = folder / "own.log", folder / "remote.log"
        servers = (process(SMALL_MODEL, log, options.pause_ms) for log in logs)
        urls = [stack.enter_context(server).url for server in servers]
        tokenizer = Tokenizer.load(SMALL_MODEL)
        text = tokenizer.encode("The lighthouse of Askham was built in 1848. " * 10)
        token = float(np.mean([token_ms(ModelServer(url, tokenizer), text) for url in urls]))
        env = {"DRAGON_TOKENIZER": str(SMALL_MODEL), "DRAGON_FIRST_TOKEN_DEADLINE": "60"}
        own, remote = (Setup(folder / url[-5:], env | {"DRAGON_MODEL": url}) for url in urls)
        peer = stack.enter_context(services.peer(remote, services.demo_corpus(folder)))
        network = stack.enter_context(relay(peer.port))
        device = stack.enter_context(services.device(own, network.port))
        client = stack.enter_context(device.client(600))
        for rtt_ms in (float(part) for part in options.rtt_ms.split(",")):
            network.network = Network(rtt_ms / 1000)
            network.cut()  # a new connection measures the new round trip
            services.wait_joint(device, rtt_ms)
            asked = read(QUESTIONS, options.answers + 1)
            answers = [answer(client, q.text, seed, options) for seed, q in enumerate(asked)][1:]
            ratios = []
            for one in answers:
                stats = one["stats"] | {"decode_device_ms": token, "decode_cloud_ms": token}
                simulated = simulated_ms("oneway:no-catch-up", stats, one["verdicts"])
                assert simulated is not None
                ratios.append(written_ms(one["stats"], one["tokens"]) / simulated)
            rows.append(
                {
                    "rtt_ms": rtt_ms,
                    "token_ms": round(token, 1),
                    "answers": len(answers),
                    "tokens": sum(one["tokens"] for one in answers),
                    "ms_per_token": mean(answers, "ms_per_token"),
                    "accept_device": mean(answers, "accept_device"),
                    "accept_cloud": mean(answers, "accept_cloud"),
                    "of_simulation": round(float(np.mean(ratios)), 3),
                    "of_simulation_each": [round(ratio, 2) for ratio in ratios],
                }
            )
            print(rows[-1], flush=True)
    return rows


def mean(answers: Sequence[Row], name: str) -> float:
    """The mean of a statistic over answers."""
    return round(float(np.mean([one["stats"][name] for one in answers])), 3)


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt-ms", default="0,300")
    parser.add_argument("--pause-ms", type=float, default=60.0, help="a server's, a token")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--answers", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(options)
    report.section("servers", rows, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
