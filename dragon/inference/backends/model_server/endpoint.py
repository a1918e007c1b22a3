"""HTTP to a model server: one connection a request, which another thread can end."""

from __future__ import annotations

import http.client
import random
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
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
    """The server asks to come back later, in so many seconds if it says so."""

    def __init__(self, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedError(ModelServerError):
    """The server does not take the request; `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Patience:
    """Waits between attempts, which double, for at most so many seconds in all."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._wait = _FIRST_WAIT_S

    def next(self, error: LostError | BusyError) -> float:
        """How long to wait before the next attempt. Raises `error` when that is too long."""
        asked = error.seconds if isinstance(error, BusyError) else None
        # Those who were turned away together do not come back together.
        wait = max(asked or 0.0, self._wait * random.uniform(0.8, 1.2))
        if wait > self._left:
            raise error
        self._left -= wait
        self._wait *= 2
        return wait


@dataclass
class Exchange:
    """A request under way, which another thread can end."""

    connection: http.client.HTTPConnection
    socket: socket.socket

    def hang_up(self) -> None:
        """End it: whoever reads from it is woken."""
        with suppress(OSError):  # the server has hung up already
            self.socket.shutdown(socket.SHUT_RDWR)

    def want_no_more(self) -> None:
        """Have the server hang up, which it does once it has noticed; that ends reading."""
        if isinstance(self.socket, ssl.SSLSocket):  # which cannot be closed by half
            self.hang_up()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)


class Endpoint:
    """Where a model server is reached. `url` may end in `/v1`, as OpenAI's clients write it."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.key = key
        parts = urlsplit(self.url)
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path
        self.private = parts.scheme == "https" or is_loopback(self._host)
        """Whether nobody on the way reads along."""
        self._context = ssl.create_default_context() if parts.scheme == "https" else None

    def connect(self, timeout: float = _CONNECT_S) -> Exchange:
        """A connection. Raises `LostError`."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=timeout)
            if self._context is None
            else http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._context
            )
        )
        try:
            connection.connect()
        except OSError as error:
            reason = error.strerror or error
            raise LostError(
                localizable(
                    "server.unreached", "the model server cannot be reached: {why}", why=str(reason)
                )
            ) from error
        return Exchange(connection, connection.sock)

    def send(
        self, exchange: Exchange, method: str, path: str, body: Any = None
    ) -> http.client.HTTPResponse:
        """The response to a request, its body not yet read; one status alone is not an error: 200.

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
            reason = _reason(response.read(4096)) or response.reason
        except (OSError, http.client.HTTPException) as error:
            raise lost(error) from error
        status = response.status
        if status in _BUSY:
            message = localizable(
                "server.busy",
                "the model server is busy ({status} {why})",
                status=str(status),
                why=str(reason),
            )
            raise BusyError(message, _seconds(response.headers))
        raise RefusedError(
            localizable(
                "server.refused",
                "the model server refuses the request ({status} {why})",
                status=str(status),
                why=str(reason),
            ),
            status,
        )

    def ask(self, method: str, path: str, body: Any = None, *, patience: float = 0.0) -> Any:
        """The JSON of a reply; a busy server is asked again for so many seconds.

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
        """Whether it answers at all, however busy it is with computing."""
        try:
            exchange = self.connect(_ALIVE_S)
        except LostError:
            return False
        try:
            self.send(exchange, "GET", "/v1/models")
        except LostError:
            return False
        except ModelServerError:
            return True
        finally:
            exchange.connection.close()
        return True


def lost(error: Exception) -> LostError:
    """That a connection broke, in a sentence."""
    return LostError(
        localizable(
            "server.lost",
            "the connection to the model server broke ({why})",
            why=str(error) or type(error).__name__,
        )
    )


def _reason(body: bytes) -> str:
    """What a server says is wrong, in the shapes that servers use."""
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
    """What `Retry-After` asks for, in seconds; a date is left out of account."""
    asked: str = headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.replace(".", "", 1).isdigit() else None
