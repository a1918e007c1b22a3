"""The server that both services run in: no client can stall it, and connections are bounded."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from cli.supervisor import address
from dragon.errors import ConfigurationError
from dragon.link.address import fingerprint
from dragon.link.control import MAX_CONTROL_BYTES
from peer.settings import PeerSettings

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

log = logging.getLogger("dragon.serving")

HEAD_S = 10.0  # for the head of a request
BODY_S = 30.0  # for each pause in its body
MAX_HEAD_BYTES = 64 << 10
_LOOK_S = 0.05
TRIM_S = 30.0  # how often freed memory is given back: some 15 ms in a thread of its own


class _Server(uvicorn.Server):
    """Logs when it listens. Before it ends it runs `drain`, which a second Ctrl-C cuts short."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Awaitable[None]] | None) -> None:
        super().__init__(config)
        self._drain = drain
        self._trimming: asyncio.Task[None] | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._drain is not None:
            draining = asyncio.ensure_future(self._drain())
            while not (draining.done() or self.force_exit):  # noqa: ASYNC110 (a signal sets it)
                await asyncio.sleep(_LOOK_S)
            draining.cancel()
        if self._trimming is not None:
            self._trimming.cancel()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Aborted answers leave cycles, which the collector looks for only once there are a quarter
        # as many new objects as old ones; libraries and models make many old ones.
        gc.collect()
        gc.freeze()
        gc.collect()  # counts from now on
        self._trimming = asyncio.create_task(trim())
        scheme = "https" if self.config.is_ssl else "http"
        log.info("ready at %s://%s", scheme, address(self.config.host, self.config.port))


async def trim() -> None:
    """Give back what PyTorch freed between small blocks: glibc keeps hundreds of megabytes."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    while give_back is not None:
        await asyncio.to_thread(give_back, 0)
        await asyncio.sleep(TRIM_S)


def peer_server(app: FastAPI, settings: PeerSettings) -> uvicorn.Server:
    """The peer's server, encrypted if it has a certificate. Raises `ConfigurationError`."""
    from peer.main import drain

    tls = None
    if settings.peer_tls_cert is not None and settings.peer_tls_key is not None:
        tls = settings.peer_tls_cert, settings.peer_tls_key
        log.info("devices may pin the certificate with #sha256=%s", _fingerprint(*tls))
    leave = partial(drain, app, settings.peer_drain_deadline)
    return server(app, settings.peer_host, settings.peer_port, drain=leave, tls=tls)


def _fingerprint(certificate: Path, key: Path) -> str:
    """The certificate's pin; raises `ConfigurationError` if it cannot be used."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
        first = certificate.read_text("ascii").partition(ssl.PEM_FOOTER)[0]
        return fingerprint(
            ssl.PEM_cert_to_DER_cert(first[first.index(ssl.PEM_HEADER) :] + ssl.PEM_FOOTER)
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"DRAGON_PEER_TLS_CERT and DRAGON_PEER_TLS_KEY: {certificate} and {key} are not a "
            f"certificate and its key, PEM: {error}"
        ) from error


def server(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    drain: Callable[[], Awaitable[None]] | None = None,
    tls: tuple[Path, Path] | None = None,
) -> uvicorn.Server:
    """Build the server of a service; `tls` is a certificate chain and its key, PEM."""
    # The soft limit of open files is usually 1,024: every connection needs one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _Server(
        uvicorn.Config(
            _plain_start(app),
            host=host,
            http=BoundedHttp,
            ws=RefusableWebSocket,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,  # it would log the key in the sign-in link
            server_header=False,
            ws_max_size=MAX_CONTROL_BYTES,
            ws_max_queue=8,
            timeout_keep_alive=30,
            ws_per_message_deflate=False,  # draft frames are small and must not wait
            timeout_graceful_shutdown=3,
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
        ),
        drain,
    )


def _plain_start(app: ASGIApp) -> ASGIApp:
    """The app, reporting a setting that prevents its start in one line instead of a traceback."""

    async def started(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
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

    return started


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, closing connections whose request does not arrive in time.

    Half of the open files allowed are for connections waiting for a request; beyond that the one
    that has waited longest is closed.
    """

    _waiting: ClassVar[dict[BoundedHttp, None]] = {}  # oldest first
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(self._waiting) > most // 2:
            oldest = next(iter(self._waiting))
            oldest._heard()
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self in self._waiting:
            self._head_bytes += len(data)
        super().data_received(data)
        if self in self._waiting and self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of a request is at most 64 KiB long.")

    def on_message_begin(self) -> None:
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._heard()
        self._arm(BODY_S)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._arm(BODY_S)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._disarm()  # the reply may take as long as it needs
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._waiting.setdefault(self)

    def handle_websocket_upgrade(self) -> None:
        self._heard()  # another protocol handles the rest
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


class RefusableWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, in which the app may refuse the handshake with a response."""

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete |= not message.get("more_body", False)
