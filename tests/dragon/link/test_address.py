"""Where peers are, and that a pinned certificate is the only one that is taken."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import pytest

from dragon.link.address import PeerAddress, addresses, fingerprint
from tests.certificates import self_signed

PIN = "ab" * 32


def test_a_list_of_peers_with_paths_or_without() -> None:
    colons = ":".join(["AB"] * 32)
    local = PeerAddress("ws://127.0.0.1:1/v1/link")
    pinned = PeerAddress("wss://peer.example/v1/link", PIN)
    whole = f" ws://127.0.0.1:1/v1/link, wss://peer.example/v1/link#sha256={colons},"
    assert addresses(whole) == (local, pinned)
    short = f"ws://127.0.0.1:1,wss://peer.example/#sha256={PIN},wss://a.example/dragon"
    assert addresses(short) == (local, pinned, PeerAddress("wss://a.example/dragon"))


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("", "must look like"),
        ("http://peer.example", "must look like"),
        ("ws://127.0.0.1:1/v1/link, ws://peer.example/v1/link", "use wss"),
        (f"ws://127.0.0.1:1/v1/link#sha256={PIN}", "pinned"),
        (f"wss://peer.example/v1/link#sha256={PIN[1:]}", "64 digits"),
        (f"wss://peer.example/v1/link#{PIN}", "sha256="),
    ],
)
def test_what_is_no_safe_list(setting: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        addresses(setting)


def test_nothing_is_sent_to_another_certificate(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.chain, certificate.key)
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(4):
            accepted, _ = listening.accept()
            with accepted:
                try:
                    with context.wrap_socket(accepted, server_side=True) as secured:
                        heard.append(secured.recv(100))
                except OSError:  # the client went away
                    heard.append(b"")

    thread = threading.Thread(target=serve)
    thread.start()
    port = listening.getsockname()[1]
    url = f"wss://127.0.0.1:{port}/v1/link"
    right, wrong = PeerAddress(url, certificate.fingerprint), PeerAddress(url, PIN)

    def connect(address: PeerAddress) -> None:
        tls = address.tls()
        with socket.create_connection(("127.0.0.1", port)) as plain, tls.wrap_socket(plain) as own:
            own.sendall(b"the key")

    async def connect_async(address: PeerAddress) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=address.tls())
        writer.write(b"the key")
        await writer.drain()
        writer.close()

    connect(right)
    asyncio.run(connect_async(right))
    with pytest.raises(ssl.SSLCertVerificationError, match=certificate.fingerprint):
        connect(wrong)
    with pytest.raises(ssl.SSLCertVerificationError, match=certificate.fingerprint):
        asyncio.run(connect_async(wrong))
    thread.join()
    listening.close()
    assert heard == [b"the key", b"the key", b"", b""]


def test_without_a_pin_certificates_are_checked() -> None:
    context = PeerAddress("wss://peer.example/v1/link").tls()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert PeerAddress("ws://127.0.0.1/v1/link").tls() is None
    assert fingerprint(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
