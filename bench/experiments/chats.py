"""Are chats about documents answered correctly? `python -m bench.chats [--half counting]`

Ten documents and 100 turns per half, in chats of two to four turns (`bench/data/chats`): rules are
chosen on one half, and the other is only for counting. A turn is right if its reply holds a gold
string (`least` of them), or declines where there is none; it is helped if the gold stands in the
reply or in a passage shown with it.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.lib import report
from dragon.models import EMBEDDED_WRITER
from dragon.retrieval.prompt_rows import NO_ANSWER
from harness import services, two_sided
from harness.services import Setup

CHATS = Path(__file__).parents[1] / "data" / "chats"
_QUESTIONS = "chats.jsonl"
_DECLINES = re.compile(
    rf"{re.escape(NO_ANSWER)}|not given|could(?: not|n't) find|do(?:es)? not say", re.IGNORECASE
)


@dataclass(frozen=True)
class Turn:
    """A question of a kind, and which strings count as an answer: `least` of `gold`, or none."""

    kind: str
    question: str
    gold: tuple[str, ...]
    least: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Turn:
        """A turn from a row of the file."""
        return cls(row["kind"], row["q"], tuple(row["gold"]), row.get("least", 1))

    def within(self, text: str) -> bool:
        """Whether a text answers it."""
        if not self.gold:
            return bool(_DECLINES.search(text))
        return sum(gold.lower() in text.lower() for gold in self.gold) >= self.least


@dataclass(frozen=True)
class Outcome:
    """A turn, whether its reply was right, and whether it helped."""

    turn: Turn
    right: bool
    helped: bool


def read(folder: Path) -> list[list[Turn]]:
    """The chats of a half."""
    lines = (folder / _QUESTIONS).read_text("utf-8").splitlines()
    return [[Turn.of(turn) for turn in json.loads(line)["chat"]] for line in lines]


def asked(client: httpx.Client, chat: list[Turn]) -> Iterator[Outcome]:
    """Ask every turn of a chat, each after the replies before it."""
    model = client.get("/v1/models").json()["data"][0]["id"]
    messages: list[dict[str, str]] = []
    for turn in chat:
        messages.append({"role": "user", "content": turn.question})
        body = {"model": model, "messages": messages, "temperature": 0, "seed": 1, "dragon": {}}
        reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
        text = reply["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": text})
        shown = [
            passage["text"]
            for choice in reply["dragon"]["choices"]
            for passage in (*choice["sources"], *choice["closest"])
        ]
        right = turn.within(text)
        helped = right or (bool(turn.gold) and turn.within("\n".join(shown)))
        print(
            "+" if right else "~" if helped else "-", f"[{turn.kind}] {turn.question} -> {text!r}"
        )
        yield Outcome(turn, right, helped)


def rows(outcomes: list[Outcome]) -> list[dict[str, object]]:
    """The shares of right and helped turns, of each kind and of all."""
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        kinds[outcome.turn.kind].append(outcome)
    return [
        {
            "turns": kind,
            "count": len(found),
            "right": round(sum(each.right for each in found) / len(found), 2),
            "helped": round(sum(each.helped for each in found) / len(found), 2),
        }
        for kind, found in (*sorted(kinds.items()), ("all", outcomes))
    ]


def main() -> None:
    """Run, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=["choosing", "counting"], default="counting")
    half = parser.parse_args().half
    folder = CHATS / half
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != _QUESTIONS}
    with tempfile.TemporaryDirectory() as data:
        built_in = {"DRAGON_MODEL": str(EMBEDDED_WRITER)}
        setup = Setup(Path(data), built_in | services.AS_INSTALLED)
        with services.pair(setup) as (device, _):
            two_sided.upload_files(device, files)
            with device.client(120) as client:
                outcomes = [each for chat in read(folder) for each in asked(client, chat)]
    found = rows(outcomes)
    report.section("chats", found, title=f"chats, {half}", notes="Shares of turns.")
    print(json.dumps({"rows": found}))


if __name__ == "__main__":
    main()
