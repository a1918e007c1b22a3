"""Named keys: made, kept as digests, changed while a service runs, revoked; who needs none.

Covers `dragon.whole_file`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragon.errors import ConfigurationError, InvalidRequestError, NotFoundError
from dragon.keys import KeyFile, NamedKey, find, is_loopback
from dragon.whole_file import write_whole


def test_which_hosts_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.8.8", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.4", "dragon.example", ""]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "keys.json"


@pytest.fixture
def keys(path: Path) -> KeyFile[NamedKey]:
    return KeyFile(path, NamedKey)


def test_a_key_is_found_by_its_text_and_kept_as_its_digest(
    keys: KeyFile[NamedKey], path: Path
) -> None:
    made = keys.add("anna")
    keys.add("bela")
    assert keys.refresh()
    found = find(keys.existing, made)
    assert found.name == "anna"
    assert made not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    for wrong in ("", "another", found.digest, "ü", "\ud800"):
        assert find(keys.existing, wrong) is None


def test_changes_are_followed(keys: KeyFile[NamedKey], path: Path) -> None:
    followed = KeyFile(path, NamedKey)
    assert not followed.refresh()
    assert not followed.exists
    keys.add("anna")
    assert followed.refresh()
    assert not followed.refresh()
    keys.revoke("anna")
    assert followed.refresh()
    assert (followed.existing, followed.exists) == ((), True)


def test_what_cannot_be_done_is_said(keys: KeyFile[NamedKey]) -> None:
    keys.add("anna")
    for name in ("anna", "Anna", "set 1", "", "../etc", "a" * 41):
        with pytest.raises(InvalidRequestError, match="key"):
            keys.add(name)
    with pytest.raises(NotFoundError, match="no key bela"):
        keys.revoke("bela")
    assert [key.name for key in keys.read()] == ["anna"]


def test_a_damaged_file_leaves_the_keys_as_they_were(keys: KeyFile[NamedKey], path: Path) -> None:
    anna = keys.add("anna")
    keys.refresh()
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=r"keys\.json"):
        keys.refresh()
    assert not keys.refresh()  # said once
    assert find(keys.existing, anna) is not None
    with pytest.raises(ConfigurationError, match=r"keys\.json"):
        keys.add("bela")
    assert path.read_text() == "{"


def test_programs_at_once_lose_no_key(keys: KeyFile[NamedKey], path: Path) -> None:
    names = [f"key-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: KeyFile(path, NamedKey).add(name), names))
    assert sorted(key.name for key in keys.read()) == sorted(names)


def test_a_disk_that_fails_leaves_the_file_as_it_was(
    keys: KeyFile[NamedKey], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.add("anna")
    before = path.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keys.add("bela")
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "")
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
