"""WebSockets that may be refused by a response, with a status and a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class RefusableWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, accepting that the app refuses with a response."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send the app's message."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete |= not message.get("more_body", False)
