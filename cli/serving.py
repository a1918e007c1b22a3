"""Running the services: one as this process's server, both as its children."""

from __future__ import annotations

import http.client
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragon.errors import ConfigurationError, DragonError
from dragon.link.control import MAX_CONTROL_BYTES

log = logging.getLogger("dragon.serving")

_STOP_SECONDS = 6.0  # the services give open streams 3
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class _Server(uvicorn.Server):
    """Says that it listens; what uvicorn says itself is not logged."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        log.info("ready at http://%s", address(self.config.host, self.config.port))


def server(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """Both services' server. Draft frames are small and must not wait, so nothing is deflated."""
    return _Server(
        uvicorn.Config(
            _plain_start(app),
            host=host,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,  # it would log the key in the sign-in link
            server_header=False,
            ws_max_size=MAX_CONTROL_BYTES,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=3,
        )
    )


def _plain_start(app: ASGIApp) -> ASGIApp:
    """The app, saying in one line instead of a traceback what setting keeps it from starting."""

    async def started(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        failure: Message | None = None

        async def hold_failure(message: Message) -> None:
            nonlocal failure
            if message["type"] == "lifespan.startup.failed":
                failure = message
            else:
                await send(message)

        try:
            await app(scope, receive, hold_failure)
        except Exception as error:
            if failure is None:
                raise
            if isinstance(error, ConfigurationError):
                failure["message"] = error.message
            await send(failure)
        return None

    return started


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(style: Literal["text", "json"]) -> None:
    """Our own packages from INFO on, others from WARNING on."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("dragon", "app", "peer"):
        logging.getLogger(name).setLevel(logging.INFO)


def address(host: str, port: int) -> str:
    host = _WILDCARDS.get(host, host)
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
    connection = http.client.HTTPConnection(_WILDCARDS.get(host, host), port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
