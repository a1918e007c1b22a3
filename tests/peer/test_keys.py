"""Named keys: made, kept as digests, changed while the peer runs, and revoked.

Covers `peer.files`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragon.errors import ConfigurationError, InvalidRequestError, NotFoundError
from peer import files, keys
from peer.keys import KeyRing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / keys.KEYS


def test_a_key_is_found_by_its_text_and_kept_as_its_digest(path: Path) -> None:
    made = keys.add(path, "anna", tokens_a_day=1000, answers=2, share=3)
    ring = KeyRing(("a-key-that-is-set",), path)
    found = ring.find(made)
    assert found is not None
    assert (found.name, found.tokens_a_day, found.answers, found.share) == ("anna", 1000, 2, 3)
    assert made not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    given = ring.find("a-key-that-is-set")
    assert given is not None
    assert (given.name, given.tokens_a_day) == ("set-1", None)
    for wrong in ("", "another", found.digest, "ü"):
        assert ring.find(wrong) is None


def test_changes_hold_without_a_restart(path: Path) -> None:
    ring = KeyRing((), path)
    assert ring.open
    anna = keys.add(path, "anna")
    assert ring.refresh()
    assert not ring.open
    held = ring.find(anna)
    assert held is not None
    assert not ring.refresh()
    keys.revoke(path, "anna")
    again = keys.add(path, "anna", answers=1)
    assert ring.refresh()
    assert ring.current(held) is None  # another key of the same name
    assert ring.find(anna) is None
    assert ring.find(again) is not None
    keys.revoke(path, "anna")
    ring.refresh()
    assert not ring.open  # revoking the last key lets nobody in


def test_what_cannot_be_done_is_said(path: Path) -> None:
    keys.add(path, "anna")
    for name in ("anna", "Anna", "set-1", "", "../etc", "a" * 41):
        with pytest.raises(InvalidRequestError, match="key"):
            keys.add(path, name)
    with pytest.raises(NotFoundError, match="keys list"):
        keys.revoke(path, "bela")
    assert [key.name for key in keys.read(path)] == ["anna"]


def test_a_damaged_file_changes_nothing_in_a_running_peer(path: Path) -> None:
    anna = keys.add(path, "anna")
    ring = KeyRing((), path)
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=keys.KEYS):
        ring.refresh()
    assert not ring.refresh()  # said once
    assert ring.find(anna) is not None
    with pytest.raises(ConfigurationError, match=keys.KEYS):
        KeyRing((), path)


def test_programs_at_once_lose_no_key(path: Path) -> None:
    names = [f"key-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: keys.add(path, name), names))
    assert sorted(key.name for key in keys.read(path)) == sorted(names)


def test_a_disk_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.add(path, "anna")
    before = path.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keys.add(path, "bela")
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == [keys.KEYS]
    with pytest.raises(OSError, match="No space"):
        files.write_whole(path, "")
    assert path.read_text() == before
