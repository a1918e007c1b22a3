"""Health, readiness and metrics.

Covers `app.main`, `app.metrics` and `app.peer_link.status`.
"""

from __future__ import annotations

import httpx

from app.peer_link.status import PeerStatus
from tests.app.api.test_bad_input import ASK, CHAT
from tests.fakes import FakeGeneration


async def test_ready_follows_the_model_not_the_peer(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    generation.peer_state = PeerStatus("refused", None, "another tokenizer")
    reply = await client.get("/ready")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "ready",
        "model": "dragon-7m",
        "peer": {"state": "refused", "rtt_ms": None, "detail": "another tokenizer"},
    }
    generation.ready = False
    reply = await client.get("/ready")
    assert (reply.status_code, reply.json()["status"]) == (503, "starting")


async def test_metrics_count_what_happened(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    await client.post(CHAT, json=ASK)
    generation.refuse = RuntimeError("broken")
    await client.post(CHAT, json=ASK)
    await client.get("/v1/models/a%20secret")
    await client.get("/nothing/secret")
    text = (await client.get("/metrics")).text
    chat = 'dragon_http_requests_total{method="POST",route="/v1/chat/completions",status='
    assert f'{chat}"200"}} 1.0' in text
    assert f'{chat}"500"}} 1.0' in text
    assert 'dragon_answers_total{mode="oneway",outcome="stop"} 1.0' in text
    assert 'dragon_answers_total{mode="oneway",outcome="error"} 1.0' in text
    assert "dragon_answers_in_progress 0.0" in text
    assert "dragon_peer_connected 1.0" in text
    assert 'dragon_tokens_total{kind="answer"}' in text
    assert "process_resident_memory_bytes" in text
    assert "secret" not in text
