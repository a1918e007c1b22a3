"""Services run from an image: commands in its root, as its user, with its environment."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.image import buildah
from tests.image.buildah import call

_START_S = 180.0
_USER = 10001


def config_of(image: str) -> dict[str, Any]:
    """What the image says of itself: its user, its command, its check."""
    told = json.loads(call("inspect", "--type", "image", image))
    found: dict[str, Any] = told["Docker"]["config"]
    return found


@functools.cache
def root_of(image: str) -> str:
    """A container made of the image, in which commands may run: its name.

    One for all of a session, since `vfs` copies the whole image: it is to stay as it was.
    """
    name = call("from", "--pull-never", image)
    for volume in config_of(image).get("Volumes") or ():
        call("config", "--volume", f"{volume}-", name)  # or it would hide the one that is given
    return name


def remove_all() -> None:
    """Remove what `root_of` has made."""
    call("rm", "--all")
    root_of.cache_clear()


@dataclass
class Container:
    """A service as an engine would run it, but that it has this machine's network and processes.

    Its root can be written to; what was written beside the volumes and `/tmp` is in `written`.
    """

    image: str
    command: Sequence[str]
    environment: Mapping[str, str]
    volumes: Sequence[str]
    health: Sequence[str]
    log: Path
    born: float = field(default_factory=time.time)
    main: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start its main command, whose output goes to the log; again, once it has ended."""
        with self.log.open("ab") as log:
            self.main = subprocess.Popen(self._run(self.command), stdout=log, stderr=log)

    def call(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command beside the main one."""
        return subprocess.run(
            self._run(arguments), capture_output=True, text=True, timeout=timeout, check=False
        )

    def wait_healthy(self) -> float:
        """Wait until its check passes; the seconds it took. Raises `RuntimeError`."""
        began = time.monotonic()
        while time.monotonic() - began < _START_S and self.running:
            if self.call(*self.health).returncode == 0:
                return time.monotonic() - began
            time.sleep(0.2)
        raise RuntimeError(f"it is not healthy:\n{self.log.read_text()[-4000:]}")

    @property
    def running(self) -> bool:
        """Whether its main command runs."""
        return self.main is not None and self.main.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the main command, as an engine does: buildah would keep it."""
        assert self.main is not None
        os.kill(_served(self.main.pid), number)

    def end(self, within_s: float) -> int:
        """Have it end, and buildah's exit status. Raises `TimeoutExpired`."""
        self.signal(signal.SIGTERM)
        return self.wait(within_s)

    def wait(self, within_s: float) -> int:
        """Wait until it has ended; buildah's exit status. Raises `TimeoutExpired`."""
        assert self.main is not None
        return self.main.wait(within_s)

    def written(self) -> list[str]:
        """The files of its root that are not the image's: none, where the root is read-only."""
        root = Path(call("mount", root_of(self.image)))
        return [
            str(path)
            for path in root.rglob("*")
            if path.is_file() and not path.is_symlink() and path.stat().st_ctime > self.born
        ]

    def _run(self, arguments: Sequence[str]) -> list[str]:
        pairs = map("=".join, self.environment.items())
        given = [option for pair in pairs for option in ("--env", pair)]
        volumes = [option for volume in self.volumes for option in ("--volume", volume)]
        return buildah.command(
            "run", "--isolation", "chroot", "--cap-drop", "ALL", *given, *volumes,
            root_of(self.image), "--", *arguments,
        )  # fmt: skip


@contextmanager
def container(
    image: str,
    data: Path,
    *,
    command: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    volumes: Sequence[str] = (),
    health: Sequence[str] = (),
) -> Iterator[Container]:
    """A container of an image, which ends with this context; its log and its `/tmp` are in `data`.

    Its main command is the image's unless another one is given.
    """
    data.mkdir(exist_ok=True)
    root_of(image)  # so that nothing of it is newer than the container
    made = Container(
        image,
        command or config_of(image)["Cmd"],
        environment,
        [*volumes, volume(data / "tmp", "/tmp")],
        health,
        data / "log",
    )
    try:
        yield made
    finally:
        if made.running:
            made.end(_START_S)


def volume(path: Path, inside: str) -> str:
    """A directory as a volume that belongs to the image's user."""
    path.mkdir(mode=0o700, exist_ok=True)
    os.chown(path, _USER, _USER)
    return f"{path}:{inside}"


def _served(pid: int) -> int:
    """The process that buildah runs in the chroot, below its own."""
    while Path(f"/proc/{pid}/comm").read_text().startswith(("buildah", "memfd:buildah")):
        # Of whichever thread started it.
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        (pid,) = (int(child) for thread in threads for child in thread.read_text().split())
    return pid
