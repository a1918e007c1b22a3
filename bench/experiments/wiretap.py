"""Does the ledger list everything that crosses? `python -m bench.wiretap [--requests 200]`

A device and its peer with the built-in model, as installed, and a wiretap on their link. Requests
of all routes (`bench.lib.routes`) are full of words that nobody else writes: in documents, their
names, private turns, questions, instructions, tools, formats. For each request what crossed is held
against what the ledger says of it and what the answer shows.

- `crossed`: such words, canaries, that were sent.
- `unnamed`: those of them that are not in the ledger.
- `unsaid`: any other words that were sent and are not in the ledger.
- `overstated`: canaries that the ledger says the cloud was asked with, and that were not sent.
- `unshown`: words of private turns that were sent and are in no answer; where the cloud is asked
  when needed, also words of documents and names, and words sent of an answer that are not in it.
- `forbidden`: requests that should have stayed on the device, and sent something.
- `uncounted`: requests whose frames the ledger counts wrongly.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lib import report
from bench.lib.canaries import Canaries
from bench.lib.crossed import REFUSED, Crossed, Notes, Wire, words
from bench.lib.routes import ALWAYS, NEVER, WHEN_NEEDED, Routes
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.models import EMBEDDED_WRITER
from harness import services, two_sided
from harness.services import Setup
from harness.wiretap import wiretap


@dataclass(frozen=True)
class Tapped:
    """A device with its notes, its peer, and the wiretap between them."""

    wire: Wire
    canaries: Canaries
    routes: Routes

    def ask(self, count: int) -> Iterator[Crossed]:
        """What crossed for each of `count` requests, or a few more."""
        seen = 0
        for way, rung in self.routes.ways():
            way(rung)
            yield from self.wire.requests[seen:]
            seen = len(self.wire.requests)
            if seen >= count:
                return


@contextmanager
def tapped(folder: Path, seed: int = 0, **env: str) -> Iterator[Tapped]:
    """A running device, peer and wiretap, with the built-in model."""
    env = {**services.AS_INSTALLED, "DRAGON_MODEL": str(EMBEDDED_WRITER), **env}
    setup = Setup(folder, env)
    canaries = Canaries(random.Random(seed))
    with (
        services.peer(setup, services.demo_corpus(folder)) as peer,
        wiretap(peer.port) as tap,
        services.device(setup, tap.port) as device,
    ):
        two_sided.upload_files(device, Notes(canaries).files())
        services.wait_joint(device)
        wire = Wire(device, tap, Tokenizer.load(str(EMBEDDED_WRITER)))
        yield Tapped(wire, canaries, Routes(wire, canaries, EMBEDDED_WRITER.stem))


def usual(tokenizer: Tokenizer) -> set[str]:
    """The words of the model's template, and of the mark for omitted text."""
    turns = [Message("system", ""), Message("user", ""), Message("assistant", "")]
    own = tokenizer.decode(
        [*tokenizer.bare_row(), *tokenizer.conversation([turns[1]])], special=True
    )
    return words(own, tokenizer.decode(tokenizer.conversation(turns)))


@dataclass(frozen=True)
class Held:
    """A request compared with the ledger and its answer: what is wrong, by kind."""

    request: Crossed
    crossed: int
    wrong: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, request: Crossed, tap: Tapped, before: Sequence[str]) -> Held:
        """Compare a request; `before` are texts of earlier ones."""
        unnamed = request.unnamed(tap.canaries, before)
        unsaid = request.unsaid(usual(tap.wire.tokenizer), before) - unnamed
        wrong = {
            "unnamed": sorted(unnamed),
            "unsaid": sorted(unsaid),
            "overstated": sorted(request.overstated(tap.canaries)),
            "unshown": sorted(request.unshown(tap.canaries)),
            "forbidden": ["sent"] * request.forbidden,
            "uncounted": [f"{request.frames} of {request.sent}"] * (request.frames != request.sent),
        }
        crossed = tap.canaries.found(*request.asked, *request.runs)
        return cls(request, len(crossed), wrong)


def held(tap: Tapped, count: int) -> Iterator[Held]:
    """Make so many requests, and compare each with what is said of it."""
    before: list[str] = []
    for request in tap.ask(count):
        yield Held.of(request, tap, before)
        before += [*request.ledger, request.text]


def rows_of(found: Sequence[Held]) -> list[dict[str, Any]]:
    """A row a rung."""
    rows = []
    for rung in (WHEN_NEEDED, ALWAYS, NEVER):
        own = [each for each in found if each.request.rung == rung]
        wrong = {
            kind: sum(len(each.wrong[kind]) for each in own)
            for kind in ("unnamed", "unsaid", "overstated", "unshown", "forbidden", "uncounted")
        }
        rows.append(
            {
                "cloud": rung,
                "requests": len(own),
                "sent_something": sum(bool(each.request.sent) for each in own),
                "frames": sum(each.request.sent for each in own),
                "crossed": sum(each.crossed for each in own),
                **wrong,
            }
        )
    return rows


def main() -> None:
    """Ask, report, and print a JSON object per wrong request, then one per row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--answers", choices=("lines", "words"), default="lines")
    options = parser.parse_args()
    found = []
    env = {"DRAGON_ANSWERS": options.answers}
    with tempfile.TemporaryDirectory() as folder, tapped(Path(folder), **env) as tap:
        for each in held(tap, options.requests):
            found.append(each)
            print(f"{len(found)} requests", end="\r", file=sys.stderr, flush=True)
            wrong = {kind: what for kind, what in each.wrong.items() if what}
            if each.request.what.endswith(REFUSED):
                wrong["refused"] = [each.request.text]
            if wrong:
                said = {"what": each.request.what, "cloud": each.request.rung, **wrong}
                print(json.dumps(said, ensure_ascii=False), flush=True)
    rows = rows_of(found)
    for row in rows:
        print(json.dumps(row))
    report.section("wiretap", rows)


if __name__ == "__main__":
    main()
