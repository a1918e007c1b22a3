"""The emulated network: its arithmetic in virtual time, its order and its bytes on real sockets."""

from __future__ import annotations

import contextlib
import json
import math
import random
import socket
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.network_emulator import JITTER, Jitter, Lane, Network, Relay, read_trace, relay


def lane(*, upward: bool = True) -> Lane:
    return Lane(random.Random(1), upward=upward)


def test_without_jitter_half_of_the_round_trip_each_way() -> None:
    network = Network(0.3, Jitter.NONE, began=0.0)
    assert lane().due(network, 5.0, 1000) == lane(upward=False).due(network, 5.0, 1) == 5.15


def test_random_jitter_stays_within_a_fifth_and_uses_all_of_it() -> None:
    chance = random.Random(2)
    seen = [Network(0.2, began=0.0).latency(7.0, chance) for _ in range(2000)]
    assert 0.1 * (1 - JITTER) <= min(seen) < 0.0815
    assert 0.1185 < max(seen) <= 0.1 * (1 + JITTER)
    assert sum(seen) / len(seen) == pytest.approx(0.1, rel=0.02)


def test_the_sine_is_the_papers() -> None:
    network = Network(0.2, Jitter.SINE, began=100.0)
    at = [network.latency(100 + 5 * math.pi * quarter, random.Random()) for quarter in range(5)]
    assert at == pytest.approx([0.1, 0.12, 0.1, 0.08, 0.1])


def test_a_trace_is_replayed_slice_by_slice_and_around_again() -> None:
    network = Network(9.0, trace=(0.02, 0.4), slice_s=2.0, began=10.0)
    at = [network.latency(10 + seconds, random.Random()) for seconds in (0, 1.9, 2.1, 3.9, 4.1)]
    assert at == [0.01, 0.01, 0.2, 0.2, 0.01]


def test_a_trace_is_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "rtt.json"
    path.write_text(json.dumps({"links": [{"name": "a-b", "rtt_ms": [80.0, 10.0]}]}))
    assert read_trace(path, "a-b") == (0.08, 0.01)
    with pytest.raises(SystemExit, match="only a-b"):
        read_trace(path, "b-a")


def test_the_cap_holds_each_way_and_counts_what_waits() -> None:
    network = Network(1.0, Jitter.NONE, up_bytes_per_s=1000, down_bytes_per_s=10_000, began=0.0)
    up, down = lane(), lane(upward=False)
    assert [up.due(network, 0.0, 500), up.due(network, 0.1, 500)] == [1.0, 1.5]
    assert [down.due(network, 0.0, 500), down.due(network, 0.1, 500)] == pytest.approx([0.55, 0.65])
    assert up.due(network, 10.0, 1000) == 11.5  # an idle link saves nothing up


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(1, 10**5)), min_size=1),
    st.sampled_from(Jitter),
    st.floats(0, 2),
    st.floats(100, 1e6),
)
def test_order_is_kept_and_nothing_is_early(
    sent: list[tuple[float, int]], jitter: Jitter, rtt_s: float, rate: float
) -> None:
    network = Network(rtt_s, jitter, up_bytes_per_s=rate, began=0.0)
    one = lane()
    dues, now = [], 0.0
    for pause, size in sent:
        now += pause
        dues.append(one.due(network, now, size))
        assert dues[-1] >= now + size / rate + rtt_s / 2 * (1 - JITTER) - 1e-9
    assert all(earlier <= later for earlier, later in pairwise(dues))


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(ConnectionResetError):
                while data := connection.recv(1 << 16):
                    connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def exchange(running: Relay, data: bytes) -> float:
    """Send bytes, read them back, and compare; the seconds it took."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        began = time.monotonic()
        threading.Thread(target=client.sendall, args=(data,), daemon=True).start()
        got = bytearray()
        while len(got) < len(data):
            got += client.recv(1 << 16)
        assert got == data
        return time.monotonic() - began


def test_bytes_come_back_in_order_and_never_early(echo: int) -> None:
    data = random.Random(3).randbytes(300_000)
    with relay(echo, Network(0.1)) as running:
        assert exchange(running, data) >= 0.1 * (1 - JITTER)
    with relay(echo, Network(jitter=Jitter.NONE, down_bytes_per_s=2e6)) as running:
        assert exchange(running, data) >= len(data) / 2e6


def test_a_pause_holds_bytes_back_until_the_link_heals(echo: int) -> None:
    with relay(echo) as running:
        running.pause()
        with socket.create_connection(("127.0.0.1", running.port), timeout=0.3) as client:
            client.sendall(b"one")
            with pytest.raises(TimeoutError):
                client.recv(3)
            running.resume()
            client.settimeout(30)
            assert client.recv(3) == b"one"


def test_a_limit_lets_so_many_bytes_up_and_cuts(echo: int) -> None:
    with relay(echo) as running:
        running.limit(4)
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
            client.sendall(b"abcdef")
            got = b""
            with contextlib.suppress(ConnectionError):
                while data := client.recv(16):
                    got += data
        assert b"abcd".startswith(got)
        exchange(running, b"new connections are taken")
