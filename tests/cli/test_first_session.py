"""`dragon add` and `dragon ask` where there is no device, or one that refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main
from tests.cli.test_main import free_port


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    port = free_port()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGON_PORT", str(port))
    return port


@pytest.mark.parametrize("arguments", [("ask", "What is up?"), ("add", "notes.txt")])
def test_without_a_device_one_line_says_what_to_do(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.argv", ["dragon", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    expected = f"dragon: No device runs at 127.0.0.1:{port}: start it with `dragon up`."
    assert ended.value.code == expected
    assert not (tmp_path / "data").exists()
