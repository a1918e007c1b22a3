"""A watched folder of many notes: `python -m bench.folders [options]`

A device without a peer is given a folder of small notes. Measured are the files a second
until all can be found by their words, then how long a changed note takes to be found, while the
rest is embedded and while nothing is done, and what renaming the directory of all of them costs.
With `--kills` the device is killed that often during the first index of another folder, whose
files change all the while; then every file must have one document, and every document a file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.experiments.document_ingestion import processor_s
from bench.lib import report
from harness import services
from harness.services import Service, Setup

_PAUSE_S = 0.05
_TOPICS = ("boiler", "ferry", "orchard", "ledger", "harbour", "violin", "glacier", "pantry")


def note(number: int, version: int = 0) -> str:
    """A small note in Markdown; its code is of its own."""
    chance = random.Random(number * 1009 + version)
    lines = [
        f"The {chance.choice(_TOPICS)} of house {chance.randrange(9999)} was seen to in week "
        f"{chance.randrange(53)}; {chance.choice(_TOPICS)} and {chance.choice(_TOPICS)} are next."
        for _ in range(5)
    ]
    return f"# Note {number}\n\nIts code is {code(number, version)}.\n\n" + "\n".join(lines) + "\n"


def code(number: int, version: int = 0) -> str:
    """A word that no other note, or version of this one, has."""
    return f"Q{number}V{version}X"


def write(folder: Path, count: int) -> list[Path]:
    """Notes in directories of a hundred."""
    paths = [folder / "all" / f"{number // 100:03}" / f"{number}.md" for number in range(count)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(note(number))
    return paths


class Follower:
    """A device that watches a folder."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self._client = service.client(120)
        body = {"path": str(folder)}
        self._id = self._client.post("/api/folders", json=body).raise_for_status().json()["id"]

    def counts(self) -> dict[str, int]:
        """The number of files in each state; none before the first look."""
        folder = self._client.get(f"/api/folders/{self._id}").raise_for_status().json()
        found: dict[str, int] = folder["files"]
        return found

    def documents(self) -> dict[str, str]:
        """The document of each file that is read, by path."""
        after, more = "", True
        found: dict[str, str] = {}
        while more:
            query = {"after": after}
            page = self._client.get(f"/api/folders/{self._id}/files", params=query).json()
            found |= {file["path"]: file["document"] for file in page["data"]}
            after, more = max(found, default=""), page["has_more"]
        return found

    def stored(self) -> list[str]:
        """The ids of all documents of the device."""
        return [file["id"] for file in self._client.get("/v1/files").json()["data"]]

    def finds(self, word: str) -> bool:
        """Whether a search finds a passage with the word."""
        body = {"query": f"Its code is {word}", "top_k": 3}
        hits = self._client.post("/v1/search", json=body).raise_for_status().json()["data"]
        return any(word in hit["text"] for hit in hits)

    def until(self, condition: Callable[[], bool], pause_s: float = _PAUSE_S) -> float:
        """Wait until a condition holds; return the seconds."""
        began = time.perf_counter()
        while not condition():
            time.sleep(pause_s)
        return time.perf_counter() - began

    def read(self, count: int) -> bool:
        """Whether all `count` files can be found."""
        counts = self.counts()
        return counts["words"] + counts["indexed"] == count

    def changed(self, path: Path, number: int, version: int) -> float:
        """Seconds from a change of a note until it is found."""
        path.write_text(note(number, version))
        return self.until(lambda: self.finds(code(number, version)))


@contextmanager
def following(data: Path, folder: Path) -> Iterator[Follower]:
    """A device on two threads, without a peer, as it is installed."""
    setup = Setup(data, {"DRAGON_CLOUD": "never", "DRAGON_THREADS": "2"})
    with services.device(setup, services.free_port()) as device:
        yield Follower(device, folder)


def changes(follower: Follower, paths: Sequence[Path], count: int, version: int) -> dict[str, Any]:
    """A row: the time until changes are found, one after another."""
    numbers = random.Random(version).sample(range(len(paths)), count)
    took = sorted(follower.changed(paths[number], number, version) for number in numbers)
    return {"p50_s": round(took[len(took) // 2], 2), "max_s": round(took[-1], 2)}


def first_index(data: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of what is measured of one folder."""
    folder = data / "notes"
    paths = write(folder, options.notes)
    with following(data / "one", folder) as follower:
        took = follower.until(lambda: follower.read(len(paths)), pause_s=1)
        yield {
            "what": "first index, words",
            "files": len(paths),
            "seconds": round(took, 1),
            "a_second": round(len(paths) / took, 1),
            "processor_s": round(processor_s(follower.service), 1),
        }
        busy = changes(follower, paths, options.changes, 1)
        yield {"what": "change, while embedding", "files": options.changes, **busy}
        if not options.wholly:
            return
        rest = follower.until(lambda: follower.counts()["indexed"] == len(paths), pause_s=1)
        yield {"what": "first index, vectors", "files": len(paths), "seconds": round(took + rest)}
        idle = changes(follower, paths, options.changes, 2)
        yield {"what": "change, idle", "files": options.changes, **idle}
        yield renamed(follower, data)


def renamed(follower: Follower, data: Path) -> dict[str, Any]:
    """A row: the cost of renaming the directory of all notes."""
    follower.until(lambda: follower.counts()["indexed"] == sum(follower.counts().values()))
    before, index = follower.documents(), vectors(data)
    took = processor_s(follower.service)
    (follower.folder / "all").rename(follower.folder / "moved")
    wanted = {path.replace("all/", "moved/", 1): each for path, each in before.items()}
    seconds = follower.until(lambda: follower.documents() == wanted, pause_s=1)
    return {
        "what": "rename of all",
        "files": len(before),
        "seconds": round(seconds, 1),
        "processor_s": round(processor_s(follower.service) - took, 1),
        "embedded": len(vectors(data) ^ index),
    }


def vectors(data: Path) -> set[tuple[str, int]]:
    """The files of vectors there are, and when each was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in data.rglob("device/index/*")}


def killed(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A row: what kills lose or double, while files come, change, move and go."""
    folder = data / "other"
    paths = write(folder, options.notes // 10)
    chance = random.Random(7)
    with following(data / "two", folder) as follower:
        for version in range(1, options.kills + 1):
            time.sleep(chance.uniform(0.0, 2.0))
            disturb(paths, chance, version)
            time.sleep(chance.uniform(0.0, 1.0))
            follower.service.kill()
            disturb(paths, chance, -version)
            follower.service.restart()
        there = list(folder.rglob("*.md"))
        follower.until(lambda: follower.counts()["indexed"] == len(there), pause_s=1)
        names = {str(path.relative_to(folder)) for path in there}
        held, stored = follower.documents(), follower.stored()
        lost = [path for path in there if not follower.finds(_code_of(path))]
        return {
            "what": f"{options.kills} kills",
            "files": len(there),
            "lost": len(names ^ held.keys()) + len(lost),
            "doubled": len(stored) - len(set(held.values())),
            "left_over": len(os.listdir(data / "two" / "device" / "files")) - len(stored),
        }


def _code_of(path: Path) -> str:
    return path.read_text().split("Its code is ")[1].split(".")[0]


def disturb(paths: list[Path], chance: random.Random, version: int) -> None:
    """Change a note, move another, delete a third and write a new one."""
    for change in ("write", "move", "delete", "add"):
        path = paths.pop(chance.randrange(len(paths)))
        if change == "write":
            path.write_text(note(10**6 + abs(version), version < 0))
        elif change == "move":
            path = path.rename(path.with_stem(f"{path.stem}-moved-{version}"))
        elif change == "delete":
            path.unlink()
            continue
        else:
            paths.append(path)
            path = path.with_stem(f"new-{version}")
            path.write_text(note(2 * 10**6 + abs(version), version < 0))
        paths.append(path)


def main() -> None:
    """Measure, report, and print one JSON object per row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=5000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--wholly", action="store_true", help="wait for the vectors, too")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for row in first_index(Path(directory), options):
            rows.append(row)
            print(json.dumps(row), flush=True)
        if options.kills:
            rows.append(killed(Path(directory), options))
            print(json.dumps(rows[-1]), flush=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    report.section("folders", [dict.fromkeys(columns, "") | row for row in rows], columns=columns)


if __name__ == "__main__":
    main()
