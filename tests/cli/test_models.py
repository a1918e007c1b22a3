"""`dragon models`: the list, a trial, a choice; real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragon.models import EMBEDDED_WRITER
from harness.faults.hub import Hub, serving
from harness.services import ROOT


@pytest.fixture
def environment(tmp_path: Path, embedded_gguf: Path) -> dict[str, str]:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/small.gguf").symlink_to(embedded_gguf)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DRAGON_")}
    return ours | {
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
        "DRAGON_DATA_DIR": str(tmp_path / "data"),
        "DRAGON_PEER_URL": "ws://127.0.0.1:9/v1/link",
    }


def dragon(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli", "models", *arguments]
    return subprocess.run(
        command, env=environment, cwd=environment["HOME"], capture_output=True, text=True
    )


def test_list_try_and_use(environment: dict[str, str]) -> None:
    listed = dragon(environment).stdout
    assert f"{EMBEDDED_WRITER.stem}  (in use)" in listed
    assert str(EMBEDDED_WRITER) in dragon(environment, "get").stdout
    assert f"DRAGON_MODEL={environment['HOME']}/models/small.gguf" in listed
    tried = dragon(environment, "try", "small")
    assert tried.returncode == 0, tried.stderr
    assert "tokens a second" in tried.stdout
    assert "No peer answers" in tried.stdout
    assert "small is chosen. Restart DRAGON" in dragon(environment, "use", "small").stdout
    assert "small  (in use)" in dragon(environment).stdout


def test_get_fetches_a_model_that_is_listed_then(
    environment: dict[str, str], embedded_gguf: Path
) -> None:
    offered = dragon(environment, "get", "--list").stdout
    assert "Qwen3-4B\n    2.5 GB · up to 7.3 GB of memory · licence Apache-2.0\n" in offered
    with serving(Hub(embedded_gguf.read_bytes())) as hub:
        reached = environment | {"HF_ENDPOINT": hub.url}
        got = dragon(reached, "get", "qwen3-4b")
        assert got.returncode == 0, got.stderr
        assert "dragon models use Qwen3-4B" in got.stdout
        assert "It is already here" in dragon(reached, "get", "qwen3-4b").stdout
        hub.status = 404
        failed = dragon(reached, "get", "Qwen3-8B")
        assert failed.returncode == 1
        assert failed.stderr.endswith("does not give Qwen3-8B now (status 404).\n")
    assert (
        f"DRAGON_MODEL={environment['DRAGON_DATA_DIR']}/models/Qwen3-4B"
        in dragon(environment).stdout
    )
    assert "Qwen3-4B  (here)" in dragon(environment, "get", "--list").stdout


def test_an_unknown_name_ends_with_one_line(environment: dict[str, str]) -> None:
    for action in ("try", "use"):
        refused = dragon(environment, action, "nothing")
        assert refused.returncode == 1
        assert refused.stderr == (
            "dragon: No model is called 'nothing': `dragon models` lists what was found.\n"
        )
