"""How much others' worst requests slow an answer: `python -m bench.neighbours [--rounds 7]`

A device alone with the built-in model. One person asks the same of their documents again and again,
while another's key, which may ask and nothing else, sends the costliest requests of a kind that are
known, one after the other, no two alike. `ratio` is the median of how long the answer takes beside
them through the median alone, both measured in turn; `at_once` is how many are sent side by side,
`sent` and `refused` how many of them were answered and refused meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from app.api_keys import Documents, May, api_keys
from bench.lib import report
from dragon.models import EMBEDDED_WRITER
from harness import services, two_sided
from harness.services import Service, Setup

MODEL = EMBEDDED_WRITER.stem
NOTE = "The wifi password of the cabin is heron-42-lantern. The router stands in the loft."
QUESTION = "What is the wifi password of the cabin?"
_TOKENS = 64
_NOTES = "Bound of `ratio`: 1.5."


def _doubling(depth: int, letter: str) -> str:
    """A few lines that stand for 2^depth letters."""
    rules = [f"a{n} ::= a{n + 1} a{n + 1}" for n in range(depth)]
    return "\n".join(["root ::= a0", *rules, f'a{depth} ::= "{letter}"'])


def _chat(**more: Any) -> tuple[str, dict[str, Any]]:
    asked = [{"role": "user", "content": "Write to me."}]
    return "/v1/chat/completions", {"messages": asked, "max_tokens": _TOKENS, **more}


def _grammar(text: str) -> tuple[str, dict[str, Any]]:
    return _chat(dragon={"grammar": text, "cloud": "never"})


def _schema(schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    held = {"type": "json_schema", "json_schema": {"name": "worst", "schema": schema}}
    return _chat(response_format=held)


def _objects(number: int) -> dict[str, Any]:
    """The largest `anyOf` that is accepted."""
    each = [{"type": "object", "properties": {f"k{number}x{n}": {"const": n}}} for n in range(400)]
    return {"anyOf": each}


def _long(number: int, size: int) -> str:
    return f"{number} " + "The ferry sails at nine, unless the tide is out. " * (size // 48)


def _rerank(number: int) -> tuple[str, dict[str, Any]]:
    texts = [_long(number * 100 + n, 40_000) for n in range(12)]
    return "/v1/rerank", {"model": "reranker", "query": QUESTION, "documents": texts}


def _embed(number: int) -> tuple[str, dict[str, Any]]:
    texts = [_long(number * 100 + n, 900) for n in range(800)]
    return "/v1/embeddings", {"input": texts}


WORST: Mapping[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "an answer": lambda _: _chat(min_tokens=_TOKENS),
    "grammar, refused": lambda n: _grammar(_doubling(24, chr(97 + n % 26) + str(n))),
    "grammar, 200 levels": lambda n: _grammar(_doubling(200, f"x{n}")),
    "grammar, taken": lambda n: _grammar(_doubling(18, chr(97 + n % 26))),
    "grammar, any letters": lambda n: _grammar(f'root ::= "{n}"? [a-z ]*'),
    "grammar, ambiguous": lambda n: _grammar(f'root ::= a\na ::= a a a | a a | "{n}" | [a-z]'),
    "schema, 400 objects": lambda n: _schema(_objects(n)),
    "schema, refused": lambda n: _schema({"type": "integer", "minimum": 10 ** (300 - n % 9)}),
    "rerank": _rerank,
    "embed": _embed,
    "embed, as Ollama": lambda n: ("/api/embed", {"input": _embed(n)[1]["input"]}),
}


@dataclass
class Neighbour:
    """Another key's requests, one after the other until it is `over`."""

    device: Service
    key: str
    models: Mapping[str, str]
    came: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def go_on(self, worst: Callable[[int], tuple[str, dict[str, Any]]]) -> None:
        """Send requests until it is over."""
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.device.url, headers=headers, timeout=5) as client:
            while not self.over.is_set():
                path, body = worst(next(self.numbers))
                body = {"model": self.models.get(path, MODEL), **body}
                with suppress(httpx.TimeoutException):  # it gives up, and asks again
                    reply = client.post(path, json=body)
                    self.came["sent" if reply.is_success else "refused"] += 1


@contextmanager
def beside(neighbour: Neighbour, kind: str, at_once: int) -> Iterator[None]:
    """Send the neighbour's requests during a `with` block."""
    neighbour.over.clear()
    work = [threading.Thread(target=neighbour.go_on, args=(WORST[kind],)) for _ in range(at_once)]
    for thread in work:
        thread.start()
    time.sleep(0.5)  # until what was sent is being worked at
    try:
        yield
    finally:
        neighbour.over.set()
        for thread in work:
            thread.join()


def answered(device: Service) -> float:
    """Seconds of one answer, of the same length each time: a quoted line would end by itself."""
    body = {"model": MODEL, "prompt": QUESTION, "temperature": 0}
    body |= {"min_tokens": _TOKENS, "max_tokens": _TOKENS}
    began = time.perf_counter()
    url = f"{device.url}/v1/completions"
    reply = httpx.post(url, headers=device.headers, json=body, timeout=600).raise_for_status()
    took = time.perf_counter() - began
    assert reply.json()["usage"]["completion_tokens"] == _TOKENS
    return took


def measure(neighbour: Neighbour, kind: str, rounds: int, at_once: int) -> dict[str, Any]:
    """A row: answers alone and beside requests of a kind, in turn."""
    alone, near = [], []
    neighbour.came.clear()
    for _ in range(rounds):
        alone.append(answered(neighbour.device))
        with beside(neighbour, kind, at_once):
            near.append(answered(neighbour.device))
    return {
        "beside": kind,
        "at_once": at_once,
        "alone_s": round(median(alone), 2),
        "beside_s": round(median(near), 2),
        "ratio": round(median(near) / median(alone), 2),
        "sent": neighbour.came["sent"],
        "refused": neighbour.came["refused"],
    }


def main() -> None:
    """Measure, report, and print one JSON object a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", choices=WORST, default=list(WORST))
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as data:
        env = {"DRAGON_CLOUD": "never", "DRAGON_MODEL": str(EMBEDDED_WRITER)}
        setup = Setup(Path(data), env)
        with services.device(setup, services.free_port()) as device:
            two_sided.upload(device, [NOTE])
            key = api_keys(device.data).add("other", may=May.ASK, documents=Documents.OWN)
            listed = httpx.get(f"{device.url}/v1/models", headers=device.headers).json()["data"]
            embedder = next(each["id"] for each in listed if each["id"] not in (MODEL, "reranker"))
            models = dict.fromkeys(("/v1/embeddings", "/api/embed"), embedder)
            neighbour = Neighbour(device, key, models)
            answered(device)
            for kind, at_once in itertools.product(options.kinds, options.at_once):
                rows.append(measure(neighbour, kind, options.rounds, at_once))
                print(json.dumps(rows[-1]), flush=True)
    report.section("neighbours", rows, notes=_NOTES)


if __name__ == "__main__":
    main()
