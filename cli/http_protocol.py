"""HTTP that no client can stall: a request has limited time, and connections are bounded."""

from __future__ import annotations

import asyncio
import resource
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 10.0
BODY_S = 30.0
"""How long a request's head may take, and each pause in its body."""
MAX_HEAD_BYTES = 64 << 10


def raise_file_limit() -> None:
    """Raise the soft limit of open files, usually 1,024: every connection needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, closing connections whose request does not arrive in time.

    Half of the open files allowed are for connections waiting for a request; beyond that the one
    that has waited longest is closed.
    """

    _waiting: ClassVar[dict[BoundedHttp, None]] = {}  # oldest first
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._wait()
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(self._waiting) > most // 2:
            oldest = next(iter(self._waiting))
            oldest._heard()
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._heard()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        if self in self._waiting:
            self._head_bytes += len(data)
        super().data_received(data)
        if self in self._waiting and self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of a request is at most 64 KiB long.")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here; a body may follow."""
        self._heard()
        self._arm(BODY_S)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._arm(BODY_S)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete; its reply may take as long as it needs."""
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The connection is kept for another request, for as long as the server allows."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._waiting.setdefault(self)

    def handle_websocket_upgrade(self) -> None:
        """From here on another protocol handles the connection."""
        self._heard()
        super().handle_websocket_upgrade()

    def _wait(self) -> None:
        self._waiting.setdefault(self)
        self._arm(HEAD_S)

    def _heard(self) -> None:
        self._waiting.pop(self, None)
        self._head_bytes = 0
        self._disarm()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._late, seconds)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self, seconds: float) -> None:
        if self.flow.read_paused:  # it is we who do not read
            self._arm(seconds)
        else:
            self.transport.abort()
