"""Do requests still give the texts that are on record? `python -m bench.texts [--record]`

Requests over the demo corpus and the notes of the two-sided benchmark, in every mode: chats, texts
to continue, and some with bias, penalties or a nucleus. `texts.jsonl` holds each request with the
hash of its text; a change that should not change answers leaves it alone. The services run in exact
mode. Another processor may differ in the last bit: record and check on one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from dragon.sampling.params import Mode
from harness import services, two_sided
from harness.models import SMALL_MODEL
from harness.services import Service, Setup

TABLE = Path(__file__).with_name("texts.jsonl")
_QUESTIONS = (0, 1, 20, 21)  # two that a private note answers, two that the public corpus does
_BEGUN = (
    "The capital of Kenya is",
    "My dentist wants",
    "Once upon a time there was a lake that",
    "The wifi at home and the elephants of Africa",
)
_MODES = (
    Mode.ONEWAY,
    Mode.COUPLED,
    Mode.TOKENWISE,
    Mode.EXCHANGE,
    Mode.SPECULATIVE,
    Mode.SEQUENCEWISE,
    Mode.LOCAL,
    Mode.CONTEXT,
)
_SEED = 20
_TOKENS = 32


def _body(asked: dict[str, Any], mode: Mode, temperature: float, **more: Any) -> dict[str, Any]:
    return {
        "model": SMALL_MODEL.name,
        **asked,
        "temperature": temperature,
        "seed": _SEED,
        "max_tokens": _TOKENS,
        **more,
        "dragon": {"aggregation": mode.value, **more.get("dragon", {})},
    }


def _chat(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def requests(questions: list[str]) -> Iterator[dict[str, Any]]:
    """The bodies of all requests; those with a `prompt` are for `/v1/completions`."""
    asked = [questions[number] for number in _QUESTIONS]
    for mode in _MODES:
        for number, question in enumerate(asked):
            yield _body(_chat(question), mode, float(number % 2 == 0))
        for begun in _BEGUN:
            yield _body({"prompt": begun}, mode, 1.0)
    yield _body({"prompt": _BEGUN[0]}, Mode.CONTEXT_TEXT, 1.0)
    yield _body({"prompt": _BEGUN[0]}, Mode.CONTEXT_KV, 1.0)
    bias = {"11": -100.0, "16": 4.0, "300": 6.0}
    penalties = {"presence_penalty": 0.75, "frequency_penalty": 1.25}
    more = {"logit_bias": bias, "top_p": 0.9, "n": 2, **penalties}
    yield _body({"prompt": _BEGUN[2]}, Mode.COUPLED, 0.8, **more)


def ask(device: Service, body: dict[str, Any]) -> str:
    """The SHA-256 of an answer: its texts, and where the cloud took part."""
    path = "completions" if "prompt" in body else "chat/completions"
    url = f"{device.url}/v1/{path}"
    reply = httpx.post(url, json=body, headers=device.headers, timeout=300).raise_for_status()
    whole = reply.json()
    texts = [choice.get("text") or choice["message"]["content"] for choice in whole["choices"]]
    parts = [choice["participation"] for choice in whole["dragon"]["choices"]]
    return hashlib.sha256(json.dumps([texts, parts]).encode()).hexdigest()


def run() -> list[dict[str, Any]]:
    """Each request and the hash of its answer."""
    found = two_sided.read(two_sided.QUESTIONS, 20)
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(Path(folder), {"DRAGON_EXACT": "true"})
        with services.pair(setup) as (device, _):
            two_sided.upload_notes(device, found)
            bodies = requests([question.text for question in found])
            return [{"request": body, "sha256": ask(device, body)} for body in bodies]


def main() -> None:
    """Write the table, or compare with it; the exit status is 1 if texts differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the table anew")
    rows = run()
    if parser.parse_args().record:
        TABLE.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{len(rows)} texts recorded")
        return
    known = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    changed = [new["request"] for new, old in zip(rows, known, strict=True) if new != old]
    for request in changed:
        print(f"changed: {json.dumps(request)}")
    print(f"{len(rows) - len(changed)} of {len(rows)} texts as recorded")
    raise SystemExit(bool(changed))


if __name__ == "__main__":
    main()
