"""The services as child processes: started, awaited, watched and ended together."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dragon.errors import ConfigurationError, DragonError

_STOP_SECONDS = 6.0  # the services give open streams 3
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def reachable(host: str) -> str:
    """The address under which this machine reaches what listens on `host`."""
    return _WILDCARDS.get(host, host)


def address(host: str, port: int) -> str:
    """Host and port as a URL has them."""
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
    """Ctrl-C, SIGTERM and a closed terminal end what is inside, which is no failure."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)


@contextmanager
def children(*names: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The services as processes of our process group, all ended at the end."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            running[name] = subprocess.Popen(own_command(name))
        yield running
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave one behind
        for process in running.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in running.items():
        if (status := process.poll()) is not None:
            others = " and ".join(f"the {other}" for other in running if other != name)
            raise DragonError(
                f"The {name} ended by itself (status {status}), see above; {others} is stopped too."
            )


def wait_ready(running: dict[str, subprocess.Popen[bytes]], host: str, port: int) -> None:
    while not _is_ready(host, port):
        check(running)
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
