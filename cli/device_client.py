"""The running device's HTTP API for commands: one request each, streamed both ways."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from app.auth import api_key
from app.settings import Settings
from cli.supervisor import address, reachable
from dragon.errors import DragonError

_BLOCK = 1 << 16


class DeviceClient:
    """Requests to the device of these settings. Each raises `DragonError` with what went wrong."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        with self._response("GET", path) as response:
            return json.load(response)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """The JSON reply to a request with a JSON body."""
        sent = None if body is None else json.dumps(body).encode()
        with self._response(method, path, sent, {"Content-Type": "application/json"}) as response:
            return json.load(response)

    def upload(self, path: Path) -> Any:
        """Upload a file, reading it as it is sent; returns the new file object."""
        boundary = uuid4().hex
        name = path.name.replace('"', "%22")
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"'
            "\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        with path.open("rb") as file:
            size = len(head) + path.stat().st_size + len(tail)
            headers = {
                "Content-Type": f"multipart/form-data; boundary={boundary}",
                "Content-Length": str(size),
            }
            body = _blocks(head, file, tail)
            with self._response("POST", "/v1/files", body, headers) as response:
                return json.load(response)

    def events(self, method: str, path: str, body: object = None) -> Iterator[Any]:
        """The data of server-sent events, decoded, as they come."""
        sent = None if body is None else json.dumps(body).encode()
        with self._response(method, path, sent, {"Content-Type": "application/json"}) as response:
            for line in response:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    event = json.loads(line.removeprefix(b"data: "))
                    if "error" in event:
                        raise DragonError(event["error"]["message"])
                    yield event

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        host, port = self._settings.host, self._settings.port
        connection = http.client.HTTPConnection(reachable(host), port)
        try:
            try:
                connection.connect()
            except OSError:
                message = f"No device runs at {address(host, port)}: start it with `dragon up`."
                raise DragonError(message) from None
            authorization = {"Authorization": f"Bearer {api_key(self._settings)}"}
            # A request refused before all of it was read still has a reply.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, authorization | (headers or {}))
            response = connection.getresponse()
            if response.status >= 400:
                raise DragonError(_message(response))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise DragonError(f"The device ended the connection: {error}") from error
        finally:
            connection.close()


def _blocks(head: bytes, file: IO[bytes], tail: bytes) -> Iterator[bytes]:
    yield head
    while block := file.read(_BLOCK):
        yield block
    yield tail


def _message(response: http.client.HTTPResponse) -> str:
    try:
        return str(json.load(response)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The device answered {response.status} {response.reason}."
