"""What a revoked key has left is erased, and nobody else's. Covers `app.erasing`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api_keys import Documents, May, api_keys
from app.erasing import request_erasure, request_file
from harness import services
from harness.services import Service, Setup
from tests.contract.asking import dragon
from tests.contract.test_household import Person, everything, settle

pytestmark = pytest.mark.services

WAIT_S = 60.0
# Where a device says when it was started; an empty store has no other date.
SINCE_START = {"/api/ps", "/api/tags", "/v1/models", "/v1/vector_stores"}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    setup = Setup(tmp_path_factory.mktemp("erasing"), {"DRAGON_EXACT": "true"})
    with services.device(setup, 0) as device:
        yield device


@pytest.fixture(scope="module")
def ben(device: Service, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Somebody who stays."""
    ben = person(device, "ben", "WOMBAT")
    settle(ben, tmp_path_factory.mktemp("folders") / "WOMBAT notes")
    return ben


def person(device: Service, name: str, word: str) -> Person:
    key = api_keys(device.data).add(name, may=May.ALL, documents=Documents.OWN)
    return Person(name, key, device, word)


def command(device: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    return dragon("key", *arguments, DRAGON_DATA_DIR=str(device.data))


def holding(device: Service, what: str) -> list[Path]:
    """The files of the device that have a word in their bytes or their name."""
    files = [path for path in device.data.rglob("*") if path.is_file()]
    said = what.lower()
    return [
        path
        for path in files
        if said.encode() in path.read_bytes().lower() or said in str(path.relative_to(device.data))
    ]


@pytest.mark.parametrize(("runs", "name"), [(True, "anna"), (False, "carl")])
def test_no_word_is_left_of_one_and_all_of_the_other(
    runs: bool, name: str, device: Service, ben: Person, tmp_path: Path
) -> None:
    gone = person(device, name, "QUOKKA")
    settle(gone, tmp_path / "QUOKKA notes")
    before = everything(ben)
    assert holding(device, gone.word)
    assert holding(device, gone.ids["document"])
    api_keys(device.data).revoke(name)
    if not runs:
        device.kill()
    erased = command(device, "erase", name, "--yes")
    assert erased.returncode == 0, erased.stderr
    assert "documents and" in erased.stdout
    if not runs:
        device.restart()
    assert holding(device, gone.word) == []
    assert holding(device, gone.ids["document"]) == []
    after = everything(ben)
    told_anew = set() if runs else SINCE_START
    assert {path for path in before if after[path] != before[path]} <= told_anew
    again = person(device, name, "QUOKKA")
    assert gone.word not in str(everything_listed(again))
    assert (tmp_path / "QUOKKA notes" / "QUOKKA.md").exists()


def everything_listed(person: Person) -> list[str]:
    paths = ("/v1/files", "/api/conversations", "/api/folders", "/api/projects", "/api/ledger")
    return [person.send("GET", path).text for path in paths]


def test_a_device_that_is_killed_meanwhile_goes_on(device: Service, ben: Person) -> None:
    dora = person(device, "dora", "QUOKKA")
    kept = ben.upload("kept.txt", "The WOMBAT lives in the shed.\n")
    for number in range(12):
        dora.upload(f"{number}.txt", f"The QUOKKA of room {number} is asleep.\n")
    originals = device.data / "files"
    count = len(list(originals.glob("*/original")))
    api_keys(device.data).revoke("dora")
    request_erasure(device.data, "dora")
    deadline = time.monotonic() + WAIT_S
    while len(list(originals.glob("*/original"))) > count - 2:
        assert time.monotonic() < deadline, device.log.read_text()
    device.kill()
    assert request_file(device.data, "dora").exists()
    assert holding(device, "quokka")
    device.restart()
    assert not request_file(device.data, "dora").exists()
    assert holding(device, "quokka") == []
    assert ben.made("GET", f"/v1/files/{kept}")["status"] == "processed"


def test_a_name_that_is_in_use_or_not_confirmed_is_kept(device: Service) -> None:
    erik = person(device, "erik", "QUOKKA")
    erik.upload("note.txt", "The QUOKKA is asleep.\n")
    assert "revoke it first" in command(device, "erase", "erik", "--yes").stderr
    api_keys(device.data).revoke("erik")
    assert command(device, "erase", "erik").returncode != 0  # nobody answers
    assert not request_file(device.data, "erik").exists()
    assert holding(device, "quokka")
    assert "no name for a key" in command(device, "erase", "../erik", "--yes").stderr
