"""Who a peer lets in: by keys that are set, by named ones, or everybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragon.errors import ConfigurationError
from peer import keys
from peer.keys import KeyRing, key_file


def test_set_and_named_keys(tmp_path: Path) -> None:
    made = key_file(tmp_path).add("anna", tokens_a_day=1000, answers=2, share=3)
    ring = KeyRing(("a-key-that-is-set",), key_file(tmp_path))
    found = ring.find(made)
    assert (found.name, found.tokens_a_day, found.answers, found.share) == ("anna", 1000, 2, 3)
    given = ring.find("a-key-that-is-set")
    assert (given.name, given.tokens_a_day) == ("set 1", None)
    assert ring.find("another") is None


def test_changes_hold_without_a_restart(tmp_path: Path) -> None:
    ring, named = KeyRing((), key_file(tmp_path)), key_file(tmp_path)
    assert ring.open
    anna = named.add("anna")
    assert ring.refresh()
    assert not ring.open
    held = ring.find(anna)
    assert held is not None
    named.revoke("anna")
    again = named.add("anna", answers=1)
    assert ring.refresh()
    assert ring.current(held) is None  # another key of the same name
    assert ring.find(again) is not None
    named.revoke("anna")
    ring.refresh()
    assert not ring.open  # revoking the last key lets nobody in


def test_a_peer_with_a_damaged_file_does_not_start(tmp_path: Path) -> None:
    (tmp_path / keys.KEYS).write_text('[{"name": "anna"}]')
    with pytest.raises(ConfigurationError, match=keys.KEYS):
        KeyRing((), key_file(tmp_path))
