"""HTTP to a model server: one connection per request, which another thread can end."""

from __future__ import annotations

import http.client
import random
import socket
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from dragon.errors import ModelServerError
from dragon.keys import is_loopback
from dragon.localizable import localizable

_CONNECT_S = 5.0
_REPLY_S = 60.0
_ALIVE_S = 5.0
_BUSY = frozenset({429, 502, 503, 504})
_FIRST_WAIT_S = 0.25


class LostError(ModelServerError):
    """There is no connection to the server, or it broke."""


class BusyError(ModelServerError):
    """The server asks to retry later, after `seconds` if it says so."""

    def __init__(self, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedError(ModelServerError):
    """The server rejects the request; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Patience:
    """Doubling waits between attempts, for at most `seconds` in all."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._wait = _FIRST_WAIT_S

    def next(self, error: LostError | BusyError) -> float:
        """How long to wait before the next attempt. Raises `error` if that is too long."""
        asked = error.seconds if isinstance(error, BusyError) else None
        # Clients that were turned away together should not return together.
        wait = max(asked or 0.0, self._wait * random.uniform(0.8, 1.2))
        if wait > self._left:
            raise error
        self._left -= wait
        self._wait *= 2
        return wait


@dataclass
class OpenRequest:
    """A request in progress, which another thread can end."""

    connection: http.client.HTTPConnection
    socket: socket.socket

    def hang_up(self) -> None:
        """End it, waking whoever reads from it."""
        with suppress(OSError):  # the server has hung up already
            self.socket.shutdown(socket.SHUT_RDWR)

    def want_no_more(self) -> None:
        """Make the server hang up, which it does once it notices; that ends reading."""
        if isinstance(self.socket, ssl.SSLSocket):  # TLS cannot be half-closed
            self.hang_up()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)


class ServerClient:
    """Where a model server is reached. `url` may end in `/v1`, as OpenAI's clients write it."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.key = key
        parts = urlsplit(self.url)
        host, self._base = parts.hostname or "", parts.path
        self.private = parts.scheme == "https" or is_loopback(host)
        """Whether nobody in between can read the traffic."""
        self._connection = partial(http.client.HTTPConnection, host, parts.port)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection = partial(
                http.client.HTTPSConnection, host, parts.port, context=context
            )

    def connect(self, timeout: float = _CONNECT_S) -> OpenRequest:
        """Open a connection. Raises `LostError`."""
        connection = self._connection(timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            why = str(error.strerror or error)
            message = localizable(
                "server.unreached", "the model server cannot be reached: {why}", why=why
            )
            raise LostError(message) from error
        return OpenRequest(connection, connection.sock)

    def send(
        self, exchange: OpenRequest, method: str, path: str, body: Any = None
    ) -> http.client.HTTPResponse:
        """Send a request; its response with the body unread. Any status but 200 is an error.

        Raises `LostError`, `BusyError` and `RefusedError`.
        """
        headers = {"Accept": "application/json, text/event-stream"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        content = None
        if body is not None:
            content = orjson.dumps(body)
            headers["Content-Type"] = "application/json"
        try:
            exchange.connection.request(method, self._base + path, content, headers)
            response = exchange.connection.getresponse()
            if response.status == 200:
                return response
            why = str(_reason(response.read(4096)) or response.reason)
        except (OSError, http.client.HTTPException) as error:
            raise lost(error) from error
        status = str(response.status)
        if response.status in _BUSY:
            busy = "the model server is busy ({status} {why})"
            message = localizable("server.busy", busy, status=status, why=why)
            raise BusyError(message, _seconds(response.headers))
        refused = "the model server refuses the request ({status} {why})"
        message = localizable("server.refused", refused, status=status, why=why)
        raise RefusedError(message, response.status)

    def ask(self, method: str, path: str, body: Any = None, *, patience: float = 0.0) -> Any:
        """The JSON of a reply; a busy server is retried for `patience` seconds.

        Raises `LostError`, `BusyError` and `RefusedError`.
        """
        waits = Patience(patience)
        while True:
            exchange = self.connect()
            try:
                exchange.socket.settimeout(_REPLY_S)
                return orjson.loads(self.send(exchange, method, path, body).read())
            except BusyError as error:
                time.sleep(waits.next(error))
            except (OSError, http.client.HTTPException) as error:
                raise lost(error) from error
            except orjson.JSONDecodeError as error:
                raise RefusedError(f"{self.url}{path} does not answer in JSON", 200) from error
            finally:
                exchange.connection.close()

    def alive(self) -> bool:
        """Whether the server answers at all, however busy it is."""
        try:
            exchange = self.connect(_ALIVE_S)
            with closing(exchange.connection):
                self.send(exchange, "GET", "/v1/models")
        except ModelServerError as error:  # any reply shows that the server is there
            return not isinstance(error, LostError)
        return True


def lost(error: Exception) -> LostError:
    return LostError(
        localizable(
            "server.lost",
            "the connection to the model server broke ({why})",
            why=str(error) or type(error).__name__,
        )
    )


def _reason(body: bytes) -> str:
    """The reason a server gives, in any of the usual shapes."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(said, dict):
        said = said.get("error", said.get("detail", said))
    if isinstance(said, dict):
        said = said.get("message", "")
    return str(said)[:300]


def _seconds(headers: Message) -> float | None:
    """The seconds of `Retry-After`; a date is ignored."""
    asked: str = headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.replace(".", "", 1).isdigit() else None
