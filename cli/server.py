"""The server that both services run in."""

from __future__ import annotations

import gc
import logging
import socket

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cli.http_protocol import BoundedHttp, raise_file_limit
from cli.supervisor import address
from dragon.errors import ConfigurationError
from dragon.link.control import MAX_CONTROL_BYTES

log = logging.getLogger("dragon.serving")


class _Server(uvicorn.Server):
    """Says that it listens; what uvicorn says itself is not logged."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # An answer that was broken off leaves cycles. They are only looked for once a quarter as
        # many objects have come as there were before, and libraries and models are many.
        gc.collect()
        gc.freeze()
        gc.collect()  # counts what there is from now on
        log.info("ready at http://%s", address(self.config.host, self.config.port))


def server(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """Both services' server. Draft frames are small and must not wait, so nothing is deflated."""
    raise_file_limit()
    return _Server(
        uvicorn.Config(
            _plain_start(app),
            host=host,
            http=BoundedHttp,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,  # it would log the key in the sign-in link
            server_header=False,
            ws_max_size=MAX_CONTROL_BYTES,
            ws_max_queue=8,
            timeout_keep_alive=30,
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
