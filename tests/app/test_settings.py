"""The settings of the device: which are refused, and where they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.settings import Settings
from dragon.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "99999"),
        ("TOP_K", "0"),
        ("ANSWERS", "rows"),
        ("AGGREGATION", "democratic"),
        ("PEER_URL", "http://127.0.0.1:8100"),
        ("PEER_URL", "ws://peer.example/v1/link"),
        ("API_KEY", "two words"),
        ("PEER_KEY", "schlüssel"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "http://localhost:3000/app"),
        ("CORS_ORIGINS", "http://localhost:3000, localhost:3001"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"DRAGON_{name}", value)
    with pytest.raises(ConfigurationError) as caught:
        Settings.read()
    assert caught.value.message.startswith(f"DRAGON_{name}: ")
    assert "\n" not in caught.value.message
    if name.endswith("KEY"):
        assert value not in caught.value.message


def test_environment_before_file_and_empty_is_unset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("DRAGON_PORT=9000\nDRAGON_TOP_K=3\nDRAGON_PEER_PORT=1\n")
    monkeypatch.setenv("DRAGON_PORT", "9001")
    monkeypatch.setenv("DRAGON_API_KEY", "")
    settings = Settings.read()
    assert (settings.port, settings.top_k, settings.api_key) == (9001, 3, None)


def test_several_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = f"wss://peer.example/v1/link#sha256={'ab' * 32}"
    here = "ws://localhost:1/v1/link, ws://[::1]:1/v1/link"
    monkeypatch.setenv("DRAGON_PEER_URL", f"{here}, {pinned}")
    assert [peer.pin for peer in Settings.read().peers] == ["", "", "ab" * 32]
    monkeypatch.setenv("DRAGON_PEER_URL", f"{pinned}, ws://peer.example/v1/link")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_PEER_URL: .*wss://"):
        Settings.read()


def test_a_key_that_can_be_guessed_is_for_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGON_API_KEY", "short")
    Settings.read()
    monkeypatch.setenv("DRAGON_HOST", "0.0.0.0")
    with pytest.raises(ConfigurationError, match=r"^DRAGON_API_KEY: .* 22 characters"):
        Settings.read()
    monkeypatch.setenv("DRAGON_API_KEY", "a" * 22)
    Settings.read()


def test_origins_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().cors_origins == ()
    monkeypatch.setenv("DRAGON_CORS_ORIGINS", "http://localhost:3000, https://App.example")
    assert Settings.read().cors_origins == ("http://localhost:3000", "https://app.example")


def test_folders_to_watch_are_separated_as_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().watch == ()
    monkeypatch.setenv("DRAGON_WATCH", os.pathsep.join(("~/Notes", "/srv/mail, old")))
    assert Settings.read().watch == (Path("~/Notes"), Path("/srv/mail, old"))
