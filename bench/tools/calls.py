"""How far is it from a request to the model, and from the model to a chunk? `python -m bench.calls`

Both services run under a profiler that sees each entry of a function of this project, a resumed
coroutine or generator included. A crossing is an entry from another module; pairs are those of
different modules. What both services do while nobody asks them anything is left out. Entries a
token are the difference of a long and a short answer, the others medians over answers: up to the
first forward, and from the last one before the first chunk to that chunk.
"""

from __future__ import annotations

import argparse
import json
import runpy
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import httpx

from harness import services
from harness.models import SMALL_MODEL
from harness.services import ROOT, Service, Setup

_PACKAGES = tuple(f"{ROOT / name}/" for name in ("app", "dragon", "peer"))
_FORWARD = "LanguageModel.forward"
_SHORT, _LONG = 8, 40
_ASKED = 9
_PROMPT = "Once upon a time there was a lake that"


class Profiler:
    """Records the time, function, module and calling module of each entry."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, str, str, str | None]] = []

    def start(self) -> None:
        """Profile this thread and all new ones."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_PACKAGES):
            return
        back, caller = frame.f_back, None
        while back is not None and caller is None:
            if back.f_code.co_filename.startswith(_PACKAGES):
                caller = back.f_code.co_filename
            back = back.f_back
        module = code.co_filename
        self.entries.append((time.time(), code.co_qualname, module, caller))


def serve(service: str, folder: Path) -> None:
    """Run a service under the profiler; SIGUSR1 has it write its entries into the folder."""
    profiler = Profiler()

    def write(*_: object) -> None:
        out = folder / f"{service}.part"
        out.write_text(json.dumps(profiler.entries))
        out.rename(out.with_suffix(".json"))

    signal.signal(signal.SIGUSR1, write)
    profiler.start()
    sys.argv = ["cli", service]
    runpy.run_module("cli", run_name="__main__", alter_sys=True)


class Trace:
    """The entries of one service."""

    def __init__(self, path: Path) -> None:
        self._entries = json.loads(path.read_text())

    def between(self, span: tuple[float, float]) -> list[list[Any]]:
        """The entries within a span of time."""
        return [entry for entry in self._entries if span[0] <= entry[0] < span[1]]

    def busy(self, span: tuple[float, float], idle: tuple[float, float]) -> list[list[Any]]:
        """The entries of functions that are not entered in the `idle` span."""
        resting = {(name, module) for _, name, module, _ in self.between(idle)}
        return [e for e in self.between(span) if (e[1], e[2]) not in resting]


def crossings(entries: list[list[Any]]) -> tuple[int, int]:
    """The number of entries from another module, and of the pairs of modules."""
    pairs = Counter((e[3], e[2]) for e in entries if e[3] not in (None, e[2]))
    return pairs.total(), len(pairs)


def ask(device: Service, tokens: int, *, stream: bool = False) -> tuple[float, float]:
    """When an answer was requested, and when it (or, streamed, its first text) arrived."""
    body = {
        "model": SMALL_MODEL.name,
        "prompt": _PROMPT,
        "max_tokens": tokens,
        "seed": 3,
        "stream": stream,
    }
    start = time.time()
    url = f"{device.url}/v1/completions"
    with httpx.stream("POST", url, json=body, headers=device.headers, timeout=300) as reply:
        for line in reply.iter_lines():
            if stream and line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                return start, time.time()
    return start, time.time()


def trace(service: Service, path: Path) -> Trace:
    """The entries of a service so far."""
    service.signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path.stem} did not write its entries")
        time.sleep(0.05)
    return Trace(path)


def run() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        setup = Setup(data, runner=("bench.tools.calls", "--folder", folder, "--serve"))
        with services.pair(setup) as (device, peer):
            ask(device, _LONG)
            idle = time.time(), time.time() + 2.0
            time.sleep(2.0)
            streamed = [ask(device, _LONG, stream=True) for _ in range(_ASKED)]
            short, long = (ask(device, tokens) for tokens in (_SHORT, _LONG))
            own, cloud = (
                trace(s, data / f"{n}.json") for s, n in ((device, "device"), (peer, "peer"))
            )
    found: dict[str, Any] = {}
    for name, side in (("device", own), ("cloud", cloud)):
        counts = [len(side.busy(span, idle)) for span in (short, long)]
        found[f"entries_a_token_{name}"] = (counts[1] - counts[0]) / (_LONG - _SHORT)
    ways: dict[str, list[list[list[Any]]]] = {"request_to_forward": [], "forward_to_chunk": []}
    for span in streamed:
        begun = own.busy(span, idle)
        forwards = [entry[0] for entry in begun if entry[1] == _FORWARD]
        ways["request_to_forward"].append([e for e in begun if e[0] < forwards[0]])
        ways["forward_to_chunk"].append([e for e in begun if e[0] >= forwards[-1]])
    for name, answers in ways.items():
        counted = [crossings(entries) for entries in answers]
        found[f"{name}_crossings"] = median(count for count, _ in counted)
        found[f"{name}_pairs"] = median(pairs for _, pairs in counted)
        found[f"{name}_modules"] = median(len({e[2] for e in entries}) for entries in answers)
    return found


def main() -> None:
    """Count, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=("device", "peer"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder)
    else:
        print(json.dumps(run(), indent=1))


if __name__ == "__main__":
    main()
