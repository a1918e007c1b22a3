"""`compose.yaml`: the device and its peer, a container each."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.image.composition import composed
from tests.image.conftest import hold

DEVICE = "http://127.0.0.1:8000"
_GRACE_S = 10  # then an engine kills what it was to stop


def linked() -> bool:
    return httpx.get(f"{DEVICE}/ready").json()["peer"]["state"] == "connected"


def test_a_first_session(tmp_path: Path, session: list[tuple[str, str]]) -> None:
    with composed("compose.yaml", tmp_path) as services:
        assert list(services) == ["peer", "device"]
        device, peer = services["device"], services["peer"]
        assert linked()
        hold(device, session)
        # Beyond the container, with the key that the documentation says how to get.
        key = device.call("dragon", "key").stdout.strip()
        reply = httpx.get(f"{DEVICE}/v1/files", headers={"Authorization": f"Bearer {key}"})
        assert [file["filename"] for file in reply.json()["data"]] == ["ravello.txt"]
        for service in (device, peer):
            service.end(_GRACE_S)
            assert "subprocess exited on terminated" in service.log.read_text()
        assert device.written() == peer.written() == []
    with composed("compose.yaml", tmp_path) as services:
        hold(services["device"], session[2:])
        assert services["peer"].log.read_text().count("1543 documents") == 1
