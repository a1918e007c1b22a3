"""The services as child processes: started, awaited, restarted, replaced, and ended together.

A service loads its models, reports that, and waits for its turn before it takes what only one may
have: port and database. So the next model is loaded while the current one still answers.
"""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from app.models.choice import kept, take_back
from dragon.errors import ConfigurationError, DragonError

_STOP_SECONDS = 12.0  # the services give answers in progress 5, and open streams 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_LASTING_S = 60.0
_NAMES = "peer", "device"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
LOADED, SWITCH = b"l", b"s"
GO, FAILED = b"g", b"f"


class Gate:
    """The service's end of its socket to `dragon up`; once `leaving`, it is ending by `leave`."""

    def __init__(self, descriptor: int, leave: Callable[[], None] = lambda: None) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._leave = leave
        self._waiting: asyncio.Task[None] | None = None
        self.leaving = False

    def turn(self) -> None:
        """Report that the models are loaded, and wait for the turn. Raises `ConfigurationError`."""
        told = b""
        with suppress(OSError):  # it has hung up
            self._socket.send(LOADED)
            told = self._socket.recv(1)
        if not told:
            raise ConfigurationError("`dragon up` has ended, or no longer wants this model")
        self._socket.setblocking(False)

    @property
    def loading(self) -> bool:
        """Whether the chosen model is being loaded or about to take over."""
        return self.leaving or (self._waiting is not None and not self._waiting.done())

    def switch(self) -> None:
        """Ask for the chosen model to be loaded beside this one, and end once it is."""
        self._socket.send(SWITCH)
        if not self.loading:
            self._waiting = asyncio.create_task(self._switched())

    async def _switched(self) -> None:
        if await asyncio.get_running_loop().sock_recv(self._socket, 1) == GO:
            self.leaving = True
            self._leave()


def reachable(host: str) -> str:
    """The address at which this machine reaches a service that listens on `host`."""
    return _WILDCARDS.get(host, host)


def address(host: str, port: int) -> str:
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

    _on_stop(stop)
    try:
        yield
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)


def _on_stop(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


class Service:
    """A service as a child process, restarted whenever it ends on its own."""

    def __init__(self, name: str, *, waits: bool = False) -> None:
        self.name = name
        self._wait = _FIRST_WAIT_S
        self._due: float | None = None
        self.loaded = False
        self.start()
        if not waits:
            self.tell(GO)

    def revive(self) -> None:
        """Restart it if it has ended, waiting longer each time it soon ends again."""
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
            self.tell(GO)

    def end(self) -> None:
        self._gate.close()  # ends the wait for its turn
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start(self) -> None:
        """Start it, with the current settings; it waits for its turn."""
        self._started, self._due, self.loaded = time.monotonic(), None, False
        self._gate, theirs = socket.socketpair()
        self._gate.setblocking(False)
        with theirs:
            gate = theirs.fileno()
            command = own_command(self.name, "--gate", str(gate))
            self.process = subprocess.Popen(command, pass_fds=[gate])

    def tell(self, word: bytes) -> None:
        """Send it a word, unless it has ended."""
        with suppress(OSError):
            self._gate.send(word)

    def heard(self) -> bytes:
        """What it has sent since the last call."""
        said = b""
        with suppress(OSError):
            said = self._gate.recv(64)
        self.loaded |= LOADED in said
        return said


class Services:
    """The peer and the device, and a second pair while another model is being loaded.

    All are in our process group, and are ended in reverse order on exit.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._before = kept(data_dir)
        self._next: list[Service] = []
        self._leaving = False
        self._stopping = False
        self.serving: list[Service] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start them, and end all on exit; a signal to stop is heeded in `rest` alone."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            # An exception raised here could leave a lock of `subprocess` held, or a process behind.
            self._stopping = True

        _on_stop(stop)
        try:
            for name in _NAMES:
                self.serving.append(Service(name))
            yield
        finally:
            _end([*self.serving, *self._next])

    def rest(self, seconds: float) -> None:
        """Sleep. Raises `KeyboardInterrupt` if a signal to stop has come."""
        time.sleep(seconds)
        if self._stopping:
            raise KeyboardInterrupt

    def wait_ready(self, *addresses: tuple[str, int]) -> None:
        """Return once all are ready at their host and port.

        Raises `DragonError` if one ends first, `KeyboardInterrupt` after a signal to stop.
        """
        for host, port in addresses:
            while not _is_ready(host, port):
                self.rest(0.1)  # first: Ctrl-C ends the services too, and is no failure of theirs
                for service in self.serving:
                    if (status := service.process.poll()) is not None:
                        what = f"The {service.name} ended by itself (status {status}), see above."
                        raise DragonError(what)

    def look(self) -> None:
        """Restart services that have ended, and let the next pair load and take over."""
        if SWITCH in self.serving[-1].heard() and not self._leaving:
            print("Loading the model chosen on the page.", flush=True)
            _end(self._next)
            self._next = [Service(name, waits=True) for name in _NAMES]
        if self._next:
            self._succeed()
        else:
            for service in self.serving:
                service.revive()

    def _succeed(self) -> None:
        """Let the next pair take over once it has loaded and the device has ended its answers."""
        peer, device = self.serving
        for service in self._next:
            service.heard()
        if self._leaving:
            if device.process.poll() is None:
                return
            peer.end()
            for service in self._next:
                service.tell(GO)
            self.serving, self._next, self._leaving = self._next, [], False
            self._before = kept(self._data_dir)
        elif any(service.process.poll() is not None for service in self._next):
            print("It could not be loaded. The one before stays.", flush=True)
            _end(self._next)
            self._next = []
            take_back(self._before)
            device.tell(FAILED)
        elif all(service.loaded for service in self._next):
            self._leaving = True
            device.tell(GO)


def _end(services: Sequence[Service]) -> None:
    for service in reversed(services):
        service.end()


def _is_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(reachable(host), port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
