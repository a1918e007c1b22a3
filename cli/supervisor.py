"""The services as child processes: started, awaited, restarted, and ended together."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from dragon.errors import ConfigurationError, DragonError

RESTART = 75
"""The exit status of a service that asks to be restarted, together with the others."""

_STOP_SECONDS = 12.0  # the services give answers in progress 5, and open streams 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_LASTING_S = 60.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def reachable(host: str) -> str:
    """The address at which this machine reaches a service that listens on `host`."""
    return _WILDCARDS.get(host, host)


def address(host: str, port: int) -> str:
    """Host and port in the form of a URL."""
    host = reachable(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def require_free(setting: str, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = f"cannot listen on {address(host, port)}: {error.strerror}"
            raise ConfigurationError(f"{setting}: {reason}; choose another") from error


def own_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cli", *arguments]


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end this context, without an error."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)


class Service:
    """A service as a child process, restarted whenever it ends on its own."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self._command = own_command(name, *options)
        self._wait = _FIRST_WAIT_S
        self._due: float | None = None
        self.start()

    @property
    def asks_to_restart(self) -> bool:
        """Whether it has ended in order to be restarted with all others."""
        return self.process.poll() == RESTART

    def check(self) -> None:
        """Raises `DragonError` if it has ended."""
        if (status := self.process.poll()) is not None:
            raise DragonError(f"The {self.name} ended by itself (status {status}), see above.")

    def revive(self) -> None:
        """Restart it if it has ended, after a longer wait each time that it does not last."""
        status, now = self.process.poll(), time.monotonic()
        if status is None:
            return
        if self._due is None:
            if now - self._started > _LASTING_S:
                self._wait = _FIRST_WAIT_S
            self._due = now + self._wait
            print(
                f"The {self.name} ended by itself (status {status}); it is started again in "
                f"{self._wait:g} s.",
                file=sys.stderr,
                flush=True,
            )
        elif now >= self._due:
            self._wait = min(2 * self._wait, _LONGEST_WAIT_S)
            self.start()

    def end(self) -> None:
        """End it, giving it time to finish what it serves."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start(self) -> None:
        """Start it, with the current settings."""
        self._started, self._due = time.monotonic(), None
        self.process = subprocess.Popen(self._command)


@contextmanager
def running(*commands: Sequence[str]) -> Iterator[list[Service]]:
    """The services as processes of our process group, ended in reverse order on exit.

    Each command is a service's name with its options.
    """
    services: list[Service] = []
    try:
        for command in commands:
            services.append(Service(*command))
        yield services
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave one behind
        end(services)


def end(services: Sequence[Service]) -> None:
    """End the services in reverse order."""
    for service in reversed(services):
        service.end()


def start_again(services: Sequence[Service]) -> None:
    """End those that still run, and start all."""
    end(services)
    for service in services:
        service.start()


def wait_ready(services: Sequence[Service], *addresses: tuple[str, int]) -> None:
    """Return once all are ready at their host and port. Raises `DragonError` if one ends first."""
    for host, port in addresses:
        while not _is_ready(host, port):
            for service in services:
                service.check()
            time.sleep(0.1)


def _is_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(reachable(host), port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
