"""`dragon key`: the device's own, and others by name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.api_keys import Documents, May, api_keys
from app.storage.database import DATABASE, database_url, migrate
from cli.__main__ import program
from dragon.errors import InvalidRequestError, NotFoundError
from dragon.keys import find


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
    assert (found.name, found.may) == ("anna", May.UPLOAD)
    listed = ["anna  upload  shared", "bela  ask  shared"]
    assert run("list").stdout.splitlines() == listed
    assert run("revoke", "anna").exit_code == 0
    assert [key.name for key in keys.read()] == ["bela"]
    assert isinstance(run("revoke", "anna").exception, NotFoundError)
    assert run("add", "clara", "--may", "everything").exit_code == 2


def test_the_devices_own_is_printed_alone_and_a_link_beside_it(tmp_path: Path) -> None:
    printed = run()
    assert printed.exit_code == 0
    assert printed.stdout.strip() == (tmp_path / "api_key").read_text().strip()
    assert "/sign-in?code=" in printed.stderr


def test_one_with_documents_of_its_own_leaves_them_to_one_that_is_to_have_them(
    tmp_path: Path,
) -> None:
    assert run("add", "anna", "--scope", "all", "--documents", "own").exit_code == 0
    (key,) = api_keys(tmp_path).read()
    assert (key.may, key.documents, key.owner) == (May.ALL, Documents.OWN, "anna")
    migrate(database_url(tmp_path))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute(
            "INSERT INTO conversations (id, title, created_at, updated_at, owner) "
            "VALUES ('one', 'One', 1, 1, 'anna')"
        )
        connection.commit()
    assert "1 conversation," in run("revoke", "anna").stderr
    refused = run("add", "anna", "--documents", "own")
    assert isinstance(refused.exception, InvalidRequestError)
    assert "--again" in str(refused.exception)
    assert run("add", "anna", "--documents", "own", "--again").exit_code == 0
    assert run("add", "clara", "--documents", "own").exit_code == 0
