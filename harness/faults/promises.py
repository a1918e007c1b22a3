"""The promises of a device, and whether they hold after an interruption."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.ledger.verify import LedgerDamagedError, verify
from app.storage import database
from app.storage.tables import Status
from cli.data import examine
from dragon.errors import NotFoundError
from harness import warm
from harness.faults.disk import Failure
from harness.faults.storage import NOTES, STEPS, storage


@dataclass(frozen=True)
class CutShort:
    """A data directory after a kill or a power cut, and what was promised before."""

    data_dir: Path
    promised: list[tuple[str, str]]
    log: str

    def broken(self) -> list[str]:
        """Restart the device; return the promises that it breaks, and anything else wrong."""
        found = asyncio.run(self._after_a_start())
        found += [f"{NOTES[each].name} is still on the disk" for each in self._traces()]
        for note in NOTES.values():
            if note.content.decode().strip() in self.log:
                found.append(f"{note.name} is in the log")
        return found + [f"{e.what}: {e.says}" for e in examine(self.data_dir, None) if not e.well]

    async def _after_a_start(self) -> list[str]:
        found = []
        async with storage(self.data_dir) as (store, ledger):
            for document in await store.list():
                with suppress(NotFoundError):  # replaced meanwhile
                    async for _ in await store.watch(document.id):
                        pass
            there = {document.id: document for document in await store.list()}
            for document in there.values():
                note = NOTES[document.id]
                try:
                    with await store.content(document.id) as original:
                        if original.read() != note.content:
                            found.append(f"{note.name} has other bytes")
                except NotFoundError as error:
                    found.append(str(error))
                if document.status != Status.PROCESSED:
                    found.append(f"{note.name} is {document.status}: {document.status_details}")
                hits = await store.search(note.word, 5, relevant=False)
                still = {each.id for each in await store.list()}  # not replaced meanwhile
                if document.id in still - {hit.document for hit in hits}:
                    found.append(f"{note.name} is not found")
            # The step in progress may have been done, or not.
            under_way = STEPS[: len(self.promised) + 2]
            for what, which in self.promised:
                if what == "added" and which not in there and ("deleted", which) not in under_way:
                    found.append(f"{NOTES[which].name} is lost")
                if what == "deleted" and which in there:
                    found.append(f"{NOTES[which].name} is there again")
            try:
                verified = await verify(ledger.sessions)
            except LedgerDamagedError as error:
                return [*found, str(error)]
            if verified.answers < sum(what == "recorded" for what, _ in self.promised):
                found.append("answers of the ledger are lost")
        return found

    def _traces(self) -> Iterator[str]:
        """Deleted notes whose words are in some file."""
        for what, which in self.promised:
            text = NOTES[which].content.strip() if what == "deleted" else b""
            files = (path for path in self.data_dir.rglob("*") if path.is_file())
            if text and any(text in path.read_bytes() for path in files):
                yield which


class Cutter:
    """Interrupts devices, each on a fresh data directory under `base`."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._template = base / "template"
        self._template.mkdir(parents=True)
        database.migrate(database.database_url(self._template))

    def killed(self, at: int) -> CutShort | None:
        """Kill it before an operation; None if it has finished all before that."""
        return self._run(f"kill-{at}", at)

    def without_power(self, at: int, seed: int | None = None) -> CutShort | None:
        """Cut its power before an operation; a seed leaves some unsynchronised data on the disk."""
        seeded = () if seed is None else ("--seed", str(seed))
        name = f"power-{at}-{seed}"
        return self._run(name, at, "--out", str(self._base / name / "out"), *seeded)

    def failing(self, how: Failure, at: int) -> CutShort:
        """Run all steps, with some operations from one on failing."""
        cut = self._run(f"{how}-{at}", at, "--failing", how, whole=True)
        assert cut is not None
        return cut

    def _run(self, name: str, at: int, *more: str, whole: bool = False) -> CutShort | None:
        place = self._base / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        data, promised, log = place / "data", place / "promised", place / "log"
        shutil.copytree(self._template, data)
        arguments = [str(data), str(promised), str(at), *more]
        process = warm.start("harness.faults.cut_short", arguments, os.environ, log)
        process.join()
        if process.exitcode == 0 and not whole:
            return None
        assert process.exitcode == (0 if whole else -9), log.read_text()
        lines = promised.read_text().splitlines()
        left = place / "out" if "--out" in more else data
        return CutShort(left, [tuple(json.loads(line)) for line in lines], log.read_text())


def operations(cutter: Cutter) -> int:
    """The number of operations that a device takes in all, by bisection."""
    low, high = 1, 2
    while cutter.killed(high) is not None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cutter.killed(middle) is None else (middle, high)
    return low


def spread(count: int, last: int) -> list[int]:
    """`count` of the numbers from 1 to `last`, spread evenly, or all of them."""
    return sorted({1 + (last - 1) * place // max(1, count - 1) for place in range(count)})
