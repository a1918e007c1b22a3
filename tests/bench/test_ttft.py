"""What the time to the first token is compared with."""

from __future__ import annotations

import json
import time

import httpx

from bench.experiments.ttft import Row, System, ask_at_once, ratios, row
from harness.fixed_documents import Query


def timed(system: str, rtt_ms: float, answers: list[list[float]]) -> Row:
    return {"system": system, "rtt_ms": rtt_ms, "answers": answers}


def test_dragon_waits_for_the_slower_of_itself_and_a_trip_to_the_peer() -> None:
    rows = [
        timed("dragon", 0, [[110, 90], [110, 90], [500, 90]]),
        timed("device-only", 0, [[100, 50], [60, 50], [60, 50]]),
        timed("peer", 0, [[60, 80], [100, 80], [60, 20]]),
        timed("drcg/kv", 0, [[400, 400]]),
        timed("dragon", 300, [[410, 420]]),
        timed("device-only", 300, [[100, 50]]),
        timed("peer", 300, [[60, 80]]),
    ]
    found = ratios(rows)
    assert found["dragon/max(device-only, rtt + peer) at 0 ms"] == round(200 / 180, 3)
    assert found["dragon/max(device-only, rtt + peer) at 300 ms"] == round(830 / 740, 3)
    assert found["drcg/kv/dragon at 0 ms"] == 4.0


def test_a_prompt_s_time_is_the_median_of_its_rounds() -> None:
    rounds = [
        [
            {"stats": {"ttft_ms": time}, "participation": [1], "sources": ["a", "b"]}
            for time in times
        ]
        for times in ([10.0, 20.0], [90.0, 30.0], [12.0, 22.0])
    ]
    found = row("dragon", 100, rounds, 7.6)
    assert found["answers"] == [[10.0, 20.0], [90.0, 30.0], [12.0, 22.0]]
    assert (found["ttft_ms"], found["bytes_down"]) == (17.0, 8)
    assert (found["joint"], found["sources"]) == (1.0, 2.0)


def test_the_second_of_a_turn_is_asked_half_a_round_trip_later() -> None:
    asked: dict[str, float] = {}

    def system(name: str) -> System:
        def answer(request: httpx.Request) -> httpx.Response:
            asked[name] = time.monotonic()
            assert json.loads(request.content)["model"] == "tiny"
            return httpx.Response(200, json={"dragon": {"choices": [{"name": name}]}})

        client = httpx.Client(base_url="http://device", transport=httpx.MockTransport(answer))
        return System(name, client, "tiny", "local", 2)

    turn = [system("device-only"), system("peer")]
    found = ask_at_once(turn, Query("Who?", (), ()), rtt_ms=300.0)
    assert found == [{"name": "device-only"}, {"name": "peer"}]
    assert asked["peer"] - asked["device-only"] > 0.1
