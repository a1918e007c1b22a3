"""A device that is killed again and again while the files of its watched folder change."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import services
from harness.services import Service, Setup
from tests.contract.asking import eventually

pytestmark = pytest.mark.services

KILLS = 3


def text(number: int) -> str:
    return f"Shelf {number} of the cellar holds the jar with the mark Q{number}X."


def disturb(folder: Path, chance: random.Random, number: int) -> None:
    """Files come, change, move and go."""
    there = sorted(folder.iterdir())
    changed, moved, gone = chance.sample(there, 3)
    changed.write_text(text(number))
    moved.rename(moved.with_stem(f"{moved.stem}-moved"))
    gone.unlink()
    for offset in (1, 2):
        (folder / f"new-{number + offset}.txt").write_text(text(number + offset))


def get(device: Service, path: str, **query: Any) -> Any:
    url = f"{device.url}{path}"
    reply = httpx.get(url, headers=device.headers, params=query, timeout=60, verify=False)
    return reply.raise_for_status().json()


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "Notes"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_text(text(number))
    chance = random.Random(3)
    setup = Setup(tmp_path, {"DRAGON_WATCH": str(folder), "DRAGON_CLOUD": "never"})
    with services.device(setup, services.free_port()) as device:
        for number in range(100, 100 + 10 * KILLS, 10):
            disturb(folder, chance, number)
            time.sleep(chance.uniform(0.2, 2.0))  # somewhere in the midst of it
            device.kill()
            disturb(folder, chance, number + 5)
            device.restart()
        (watched,) = get(device, "/api/folders")["data"]
        names = {path.name for path in folder.iterdir()}

        def followed() -> bool:
            found = get(device, f"/api/folders/{watched['id']}/files", state="indexed")["data"]
            return {file["path"] for file in found} == names

        eventually(followed)
        files = get(device, f"/api/folders/{watched['id']}/files")["data"]
        stored = [file["id"] for file in get(device, "/v1/files")["data"]]
        assert sorted(stored) == sorted({file["document"] for file in files})
        assert len(stored) == len(names)
        for file in files:
            original = tmp_path / "device" / "files" / file["document"] / "original"
            assert original.read_text() == (folder / file["path"]).read_text()
        kept = {path.name for path in (tmp_path / "device" / "files").iterdir()}
        assert kept == set(stored)
        ids = [path.name.split(".")[0] for path in (tmp_path / "device" / "index").iterdir()]
        assert sorted(ids) == sorted(stored)
