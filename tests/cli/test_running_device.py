"""Commands to the running device, where there is none or a scripted one.

With a real one they are in `tests.contract.test_command_line`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from cli.__main__ import main
from cli.running_device import DeviceClient
from harness.services import free_port


@pytest.mark.parametrize("kept", [False, True], ids=["nowhere", "without a key"])
@pytest.mark.parametrize(
    "arguments",
    [("ask", "What is up?"), ("add", "notes.txt"), ("watch",), ("watch", "."), ("unwatch", ".")],
)
def test_without_a_device_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], kept: bool
) -> None:
    """And it leaves no key behind, even where a data directory is."""
    monkeypatch.chdir(tmp_path)
    if kept:
        (tmp_path / "data").mkdir()
    monkeypatch.setenv("DRAGON_PORT", str(port := free_port()))
    monkeypatch.setattr("sys.argv", ["dragon", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    expected = f"dragon: No device runs at 127.0.0.1:{port}: start it with `dragon up`."
    assert ended.value.code == expected
    assert [*tmp_path.iterdir()] == ([tmp_path / "data"] if kept else [])
    assert not (tmp_path / "data/api_key").exists()


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\u0085"])
def test_the_text_of_an_event_may_have_line_ends_that_json_leaves_as_they_are(end: str) -> None:
    event = {"text": f"The oar hangs{end}behind the red door."}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            said = json.dumps(event, ensure_ascii=False)
            self.wfile.write(f"data: {said}\n\ndata: [DONE]\n\n".encode())

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        device = DeviceClient(Settings(_env_file=None, port=server.server_port, api_key="k" * 20))
        assert [*device.events("GET", "/")] == [event]
