"""The settings of the peer: which are refused, and by which name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragon.errors import ConfigurationError
from peer import keys
from peer.settings import PeerSettings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGON_PEER_CORPUS", "corpus")


def test_keys_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_KEYS", " one, two,,")
    assert PeerSettings.read().peer_keys == ("one", "two")


def test_a_peer_on_loopback_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_HOST", "localhost")
    assert PeerSettings.read().peer_keys == ()


def test_a_peer_beyond_loopback_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_HOST", "peer.example")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_PEER_KEYS: "):
        PeerSettings.read()
    monkeypatch.setenv("DRAGON_PEER_KEYS", f"{'a' * 22},short")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_PEER_KEYS: .* 22 characters"):
        PeerSettings.read()
    monkeypatch.setenv("DRAGON_PEER_KEYS", "a" * 22)
    assert PeerSettings.read().peer_host == "peer.example"


def test_a_named_key_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_HOST", "0.0.0.0")
    keys.key_file(Path("data")).add("anna")
    assert PeerSettings.read().peer_keys == ()


def test_a_certificate_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_TLS_CERT", "peer.crt")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_PEER_TLS_CERT and .*: set both"):
        PeerSettings.read()
    monkeypatch.setenv("DRAGON_PEER_TLS_KEY", "peer.key")
    assert PeerSettings.read().peer_tls_key == Path("peer.key")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PEER_DRAIN_DEADLINE", "-1"),
        ("PEER_PORT", "99999"),
        ("PEER_MAX_SESSIONS", "0"),
        ("DTYPE", "float8"),
        ("THREADS", "0"),
        ("KV_CACHE_MB", "-1"),
        ("LOG_FORMAT", "xml"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"DRAGON_{name}", value)
    with pytest.raises(ConfigurationError, match=f"^DRAGON_{name}: "):
        PeerSettings.read()


def test_a_peer_without_a_corpus_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGON_PEER_CORPUS")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_PEER_CORPUS: "):
        PeerSettings.read()
