"""A model hub like Hugging Face's, which hangs up or corrupts files when told to."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PIECE = 1 << 16


@dataclass
class Hub:
    """A hub that has the same file under every name.

    It hangs up once after each number of bytes in `breaks`, sends zeros if it `damages`, replies to
    HEAD with `status`, and stops in the middle of the file while `flows` is not set. `ranges` lists
    the ranges requested.
    """

    content: bytes
    breaks: list[int] = field(default_factory=list)
    damages: bool = False
    status: int = 200
    flows: threading.Event = field(default_factory=threading.Event)
    ranges: list[str | None] = field(default_factory=list)
    url: str = ""


@contextlib.contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run the hub, at its `url`."""
    hub.flows.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            checksum = hashlib.sha256(hub.content).hexdigest()
            self._begin(hub.status, len(hub.content), {"X-Linked-Etag": f'"{checksum}"'})

        def do_GET(self) -> None:
            asked = self.headers["Range"]
            hub.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            content = bytes(len(hub.content)) if hub.damages else hub.content
            self._begin(206 if asked else 200, len(content) - start)
            end = start + hub.breaks.pop(0) if hub.breaks else len(content)
            for at in range(start, end, _PIECE):
                if at >= len(content) // 2:
                    hub.flows.wait()
                self.wfile.write(content[at : min(end, at + _PIECE)])
            self.close_connection = True

        def _begin(self, status: int, length: int, more: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            for name, value in (more or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # the other side may hang up, too
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.flows.set()
        server.shutdown()
        server.server_close()
