"""`dragon add`, `ask` and `watch` against a running device.

Covers `cli.running_device`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from app.api_keys import Documents, May, api_keys
from harness import warm
from harness.services import KEY, ROOT, Service
from tests.contract.conftest import Pair

pytestmark = pytest.mark.services

NOTE = "The spare key of the cabin in Ravello hangs under the third flowerpot."
QUESTION = "Where does the spare key of the cabin in Ravello hang?"


def environment(device: Service) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("DRAGON_")}
    own = {"DRAGON_PORT": str(device.port), "DRAGON_API_KEY": KEY}
    return env | own | {"PYTHONPATH": str(ROOT)}


def command(device: Service, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *arguments],
        env=environment(device),
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(device: Service, directory: Path, *arguments: str) -> tuple[int, str, str]:
    done = warm.run("cli", arguments, environment(device), directory=directory, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_first_session(exact: Pair, tmp_path: Path) -> None:
    (tmp_path / "ravello.txt").write_text(NOTE)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "häfen.txt").write_text("The ferry to Amalfi leaves at eight.")
    names = ("ravello.txt", "empty.txt", "nowhere.txt", "häfen.txt")
    status, output, errors = run(exact.device, tmp_path, "add", *names)
    assert status == 1
    assert output.splitlines() == ["ravello.txt: 1 passage", "häfen.txt: 1 passage"]
    refused, missing = errors.splitlines()
    assert refused.startswith("empty.txt: ")
    assert missing == "nowhere.txt: No such file or directory"

    for name in ("notes/wifi.rtf", "notes/inner/boat.txt", "notes/.hidden/secret.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(rf"{{\rtf1 {name} is here.}}")
    status, output, errors = run(exact.device, tmp_path, "add", "notes")
    assert (status, errors) == (0, "")
    assert output.splitlines() == ["boat.txt: 1 passage", "wifi.rtf: 1 passage"]

    status, answer, sources = run(exact.device, tmp_path, "ask", QUESTION)
    assert status == 0
    assert "flowerpot" in answer
    assert "private: ravello.txt" in sources.splitlines()
    assert run(exact.device, tmp_path, "ask", QUESTION) == (status, answer, sources)

    private = run(exact.device, tmp_path, "ask", "--private", QUESTION)
    assert run(exact.device, tmp_path, "ask", "--cloud", "never", QUESTION) == private
    status, _, sources = private
    assert status == 0
    assert {line.partition(":")[0] for line in sources.splitlines()} == {"private"}


def test_parameters_of_a_question(exact: Pair, tmp_path: Path) -> None:
    seeds = ["ask", "--temperature", "1", "--mode", "local", "--seed"]
    first = run(exact.device, tmp_path, *seeds, "3", QUESTION)
    assert first[0] == 0
    assert run(exact.device, tmp_path, *seeds, "3", QUESTION) == first
    status, _, message = run(exact.device, tmp_path, "ask", "--temperature", "9", QUESTION)
    assert status == 1
    assert message.startswith("dragon: ")
    assert "temperature" in message


def test_ctrl_c_stops_an_answer(exact: Pair, tmp_path: Path) -> None:
    asking = command(exact.device, tmp_path, "ask", "--temperature", "2", QUESTION)
    assert asking.stdout is not None
    asking.stdout.read(1)
    asking.send_signal(signal.SIGINT)
    _, errors = asking.communicate(timeout=60)
    assert asking.returncode in (0, 130)  # 0: it had been written by then
    assert "Traceback" not in errors


def test_a_folder_is_watched_from_the_command_line(exact: Pair, tmp_path: Path) -> None:
    notes = tmp_path / "Notes"
    notes.mkdir()
    (notes / "amalfi.md").write_text("The ferry to Amalfi is moored at quay nine.")
    (notes / "empty.txt").touch()
    status, output, errors = run(exact.device, tmp_path, "watch", "Notes")
    told = f"{notes}: 2 files: 1 can be found, 1 could not be read (collection 'Notes')"
    assert (status, output.strip()) == (0, told)
    assert errors.strip() == "empty.txt: The file is empty."
    assert run(exact.device, tmp_path, "watch") == (status, output, errors)
    _, answer, sources = run(exact.device, tmp_path, "ask", "Where is the ferry to Amalfi moored?")
    assert "quay nine" in answer
    assert "private: amalfi.md" in sources.splitlines()

    assert run(exact.device, tmp_path, "unwatch", "Notes") == (0, "", "")
    assert run(exact.device, tmp_path, "watch") == (0, "", "")
    status, _, errors = run(exact.device, tmp_path, "unwatch", "Notes")
    assert (status, errors) == (
        1,
        "dragon: Notes is not watched: `dragon watch` lists what is.\n",
    )


def test_a_folder_is_watched_for_another_key(exact: Pair, tmp_path: Path) -> None:
    named = api_keys(exact.device.data)
    headers = {"Authorization": f"Bearer {named.add('dora', may=May.ALL, documents=Documents.OWN)}"}
    notes = tmp_path / "Notes"
    notes.mkdir()
    status, output, errors = run(exact.device, tmp_path, "watch", "Notes", "--key", "dora")
    assert (status, output, errors) == (0, f"{notes}: followed for dora (collection 'Notes')\n", "")
    assert run(exact.device, tmp_path, "watch") == (0, "", "")  # it is hers
    with httpx.Client(base_url=exact.device.url, headers=headers, timeout=60) as dora:
        (folder,) = dora.get("/api/folders").json()["data"]
        assert folder["path"] == str(notes)
        assert dora.delete(f"/api/folders/{folder['id']}").status_code == 200
        refused = dora.post("/api/folders", json={"path": str(notes)})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_permitted")
    named.revoke("dora")
    status, _, errors = run(exact.device, tmp_path, "watch", "Notes", "--key", "dora")
    assert (status, errors) == (1, "dragon: There is no key dora with documents of its own.\n")
