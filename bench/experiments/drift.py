"""How often do batching, catch-up and bfloat16 change a token? `python -m bench.drift`

With them a forward has another shape, and its last bits may differ. Questions are asked of services
as people run them, and each answer is compared with the sequential reference in the same type. The
rate is changed tokens (the first difference of an answer; what follows it is another text) over
tokens compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import torch

from bench.lib import report
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Sampling
from harness import reference, services
from harness.models import SMALL_MODEL
from harness.network_emulator import Network, relay
from harness.reference import Passage
from harness.services import Service, Setup
from harness.two_sided import QUESTIONS, Question, read, upload_notes


@dataclass(frozen=True)
class Case:
    """The features that are turned on."""

    dtype: str
    catch_up: bool
    batching: bool


CASES = (
    Case("float32", catch_up=False, batching=True),
    Case("float32", catch_up=True, batching=False),
    Case("float32", catch_up=True, batching=True),
    Case("bfloat16", catch_up=False, batching=False),
    Case("bfloat16", catch_up=True, batching=True),
)
_AT_ONCE = 8
Answers = list[tuple[Question, int, dict[str, Any]]]


async def ask_all(
    device: Service, questions: list[Question], seeds: range, tokens: int, case: Case
) -> Answers:
    """Ask every question with every seed, one at a time unless batching is on."""
    gate = asyncio.Semaphore(_AT_ONCE if case.batching else 1)
    limits = httpx.Limits(max_connections=None)

    async def one(question: Question, seed: int) -> tuple[Question, int, dict[str, Any]]:
        body = {
            "model": SMALL_MODEL.name,
            "messages": [{"role": "user", "content": question.text}],
            "seed": seed,
            "max_tokens": tokens,
        }
        async with gate:
            reply = await client.post("/v1/chat/completions", json=body)
        return question, seed, reply.raise_for_status().json()

    async with httpx.AsyncClient(
        base_url=device.url, headers=device.headers, timeout=600, limits=limits
    ) as client:
        asked = [one(question, seed) for question in questions for seed in seeds]
        return await asyncio.gather(*asked)


def compare(case: Case, answers: Answers, tokens: int) -> dict[str, Any]:
    """Count the tokens up to the first difference of each answer that was joint throughout."""
    torch.set_num_threads(1)
    tokenizer = Tokenizer.load(SMALL_MODEL)
    model = LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size, dtype=case.dtype)
    compared = changed = skipped = 0
    for question, seed, reply in answers:
        own = reply["dragon"]["choices"][0]
        count = reply["usage"]["completion_tokens"]
        if own["participation"] != [[0, count]]:
            skipped += 1
            continue
        private, public = (
            [Passage(s["text"], s["score"]) for s in own["sources"] if s["side"] == side]
            for side in ("private", "public")
        )
        expected = reference.write(
            model, tokenizer, question.text, private, public, Sampling(seed=seed), tokens
        )
        text = tokenizer.decode([t for t in expected if t not in tokenizer.end_ids])
        got = reply["choices"][0]["message"]["content"]
        compared += count
        if got != text:
            changed += 1
            print(f"changed: {question.text!r} seed {seed}: {got!r} for {text!r}", flush=True)
    return asdict(case) | {
        "answers": len(answers),
        "not_joint_throughout": skipped,
        "tokens": compared,
        "changed": changed,
        "rate": changed / max(1, compared),
    }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a case."""
    questions = read(QUESTIONS, options.questions)
    rows = []
    for (dtype, catch_up), cases in groupby(CASES, key=lambda case: (case.dtype, case.catch_up)):
        asked = {}
        with tempfile.TemporaryDirectory() as folder:
            setup = Setup(Path(folder), {"DRAGON_DTYPE": dtype}, catch_up=catch_up)
            with (
                services.peer(setup, services.demo_corpus(setup.data)) as peer,
                relay(peer.port, Network(options.rtt_ms / 1000)) as network,
                services.device(setup, network.port) as device,
            ):
                upload_notes(device, questions)
                services.wait_joint(device)
                seeds = range(options.seeds)
                for case in cases:
                    asked[case] = asyncio.run(
                        ask_all(device, questions, seeds, options.tokens, case)
                    )
        rows += [compare(case, answers, options.tokens) for case, answers in asked.items()]
    return rows


def main() -> None:
    """Ask, compare, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=20, help="of each side")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rtt-ms", type=float, default=20.0)
    rows = run(parser.parse_args())
    report.section("drift", rows)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
