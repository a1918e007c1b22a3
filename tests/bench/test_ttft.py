"""What the time to the first token is compared with."""

from __future__ import annotations

from bench.ttft import ratios


def test_dragon_waits_for_the_slower_of_itself_and_a_trip_to_the_peer() -> None:
    times = {"dragon": 110.0, "device-only": 100.0, "peer": 60.0, "drcg/kv": 440.0}
    rows = [
        {
            "system": system,
            "rtt_ms": rtt_ms,
            "ttft_ms": time + (rtt_ms if system == "dragon" else 0),
        }
        for rtt_ms in (0.0, 300.0)
        for system, time in times.items()
    ]
    found = ratios(rows)
    assert found["dragon/max(device-only, rtt + peer) at 0 ms"] == round(110 / 100, 3)
    assert found["dragon/max(device-only, rtt + peer) at 300 ms"] == round(410 / 360, 3)
    assert found["drcg/kv/dragon at 0 ms"] == 4.0
