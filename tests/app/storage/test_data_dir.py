"""One device a directory, and none over a database that is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.storage.data_dir import note_database, owned, require_database
from app.storage.database import DATABASE, database_url, migrate
from dragon.errors import ConfigurationError
from harness.services import ROOT

_OWN = """
import sys
from pathlib import Path
from app.storage.data_dir import owned
with owned(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_second_device_is_kept_out_until_the_first_ends(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", _OWN, str(tmp_path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        expected = f"a device \\(process {first.pid}\\) uses {tmp_path}. Stop it first"
        with pytest.raises(ConfigurationError, match=expected), owned(tmp_path):
            pass
        first.kill()
        first.wait()
        with owned(tmp_path):
            pass


def test_a_lost_database_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    require_database(tmp_path)  # nothing was here before
    migrate(database_url(tmp_path))
    note_database(tmp_path)
    require_database(tmp_path)
    (tmp_path / DATABASE).rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"dragon\.db is missing.*dragon restore"):
        require_database(tmp_path)
    (tmp_path / DATABASE).touch()
    with pytest.raises(ConfigurationError, match="missing or empty"):
        require_database(tmp_path)


def test_originals_without_a_database_are_enough_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "files" / "file-1").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="was in use"):
        require_database(tmp_path)
