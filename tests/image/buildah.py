"""buildah, which needs no daemon: storage in a directory, and a chroot for isolation."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

STORE = Path(tempfile.gettempdir()) / "dragon-image"
DRAGON, BALANCER, BASE = "dragon", "haproxy:3.2", "docker.io/library/python:3.11-slim"


def command(*arguments: str) -> list[str]:
    """A call of buildah, which keeps what it makes in `STORE`."""
    places = ["--root", str(STORE / "storage"), "--runroot", str(STORE / "run")]
    return ["buildah", *places, "--storage-driver", "vfs", *arguments]


def call(*arguments: str) -> str:
    """What buildah says; raises `CalledProcessError`."""
    done = subprocess.run(command(*arguments), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def there(image: str) -> bool:
    """Whether the storage has an image."""
    listed = subprocess.run(
        command("inspect", "--type", "image", image), check=False, capture_output=True
    )
    return listed.returncode == 0
