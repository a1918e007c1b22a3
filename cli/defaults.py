"""Settings that the program fills in, so that two services on one machine fit together."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dotenv import dotenv_values

from app.auth import kept_key, one_time_code
from app.settings import Settings
from cli.supervisor import address
from dragon.link.address import LINK_PATH
from peer.settings import PeerSettings


def share_cores() -> None:
    """Halve the threads: two services that each use every core run a hundred times slower."""
    _default("DRAGON_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))


def share_link() -> PeerSettings:
    """The peer's settings on this machine; sets the device's key, address and corpus to match."""
    data_dir = Settings.read().data_dir
    _default("DRAGON_PEER_CORPUS", str(data_dir / "corpus"))
    given = Settings.read().peer_key
    key = given.get_secret_value() if given else kept_key(data_dir / "peer_key")
    _default("DRAGON_PEER_KEYS", key)
    peer = PeerSettings.read()
    _default("DRAGON_PEER_KEY", peer.peer_keys[0])
    _default("DRAGON_PEER_URL", f"ws://{address(peer.peer_host, peer.peer_port)}{LINK_PATH}")
    return peer


def corpus(settings: Settings) -> Path:
    """The corpus's directory: beside the device's data unless `DRAGON_PEER_CORPUS` is set."""
    _default("DRAGON_PEER_CORPUS", str(settings.data_dir / "corpus"))
    return PeerSettings.read().peer_corpus


def sign_in_link(settings: Settings, key: str) -> str:
    code = one_time_code(key, time.time())
    return f"http://{address(settings.host, settings.port)}/sign-in?code={code}"


def is_set(name: str) -> bool:
    """Whether the environment or `.env` sets it."""
    return bool({**dotenv_values(".env"), **os.environ}.get(name))


def _default(name: str, value: str) -> None:
    """Set a variable that neither the environment nor `.env` sets, also for child processes."""
    if not is_set(name):
        os.environ[name] = value
