"""A device's storage that is killed, loses its power or its disk keeps what it has promised.

Covers what `python -m bench.cuts` does at length.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.faults.disk import Failure
from harness.faults.durable import Durable
from harness.faults.promises import Cutter
from harness.faults.storage import STEPS

KILLS = (14, 83, 119, 186)
POWER = ((22, None), (52, 1), (121, 2), (160, None), (189, 3))
FAILURES = (
    (Failure.FULL, 31),
    (Failure.FULL, 97),
    (Failure.BROKEN, 97),
    (Failure.BROKEN, 171),
    (Failure.LOCKED, 31),
    (Failure.LOCKED, 171),
)


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> Cutter:
    return Cutter(tmp_path_factory.mktemp("cuts") / "all")


@pytest.mark.parametrize("at", KILLS)
def test_killed(cutter: Cutter, at: int) -> None:
    cut = cutter.killed(at)
    assert cut is not None
    assert cut.broken() == []


@pytest.mark.parametrize(("at", "seed"), POWER)
def test_without_power(cutter: Cutter, at: int, seed: int | None) -> None:
    cut = cutter.without_power(at, seed)
    assert cut is not None
    assert cut.broken() == []


@pytest.mark.parametrize(("how", "at"), FAILURES)
def test_operations_that_fail(cutter: Cutter, how: Failure, at: int) -> None:
    went_on = cutter.failing(how, at)
    assert tuple(went_on.promised) == STEPS
    assert went_on.broken() == []


def test_what_is_not_synchronised_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)  # put back at the end
    root = tmp_path / "data"
    root.mkdir()
    (root / "old").write_text("old")
    durable = Durable(root, "database")
    durable.watch()
    (root / "old").write_text("new")
    for name in ("named", "written"):
        with (root / name).open("w") as file:
            file.write("text")
            file.flush()
            if name == "written":
                os.fsync(file.fileno())
    directory = os.open(root, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    (root / "late").write_text("text")
    durable.cut(tmp_path / "after")
    left = {path.name: path.read_text() for path in (tmp_path / "after").iterdir()}
    assert left == {"old": "old", "named": "", "written": "text"}
