"""`dragon key`: the device's own, and others by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.api_keys import May, api_keys
from cli.main import program
from dragon.errors import NotFoundError
from dragon.key_file import find


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGON_DATA_DIR", str(tmp_path))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["key", *arguments])


def test_others_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = run("add", "anna", "--may", "upload")
    assert made.exit_code == 0
    run("add", "bela")
    keys = api_keys(tmp_path)
    found = find(keys.read(), made.stdout.splitlines()[0])
    assert found is not None
    assert (found.name, found.may) == ("anna", May.UPLOAD)
    assert run("list").stdout.splitlines() == ["anna  upload", "bela  ask"]
    assert run("revoke", "anna").exit_code == 0
    assert [key.name for key in keys.read()] == ["bela"]
    assert isinstance(run("revoke", "anna").exception, NotFoundError)
    assert run("add", "clara", "--may", "everything").exit_code == 2


def test_the_devices_own_is_still_printed(tmp_path: Path) -> None:
    printed = run()
    assert printed.exit_code == 0
    assert printed.stdout.splitlines()[0] == (tmp_path / "api_key").read_text().strip()
