"""Every request and response: hosts, origins, headers, ids, logs, and what clients may vary.

Covers `app.container` and `app.main`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable

import httpx
import pytest

from app import middleware
from app.auth import COOKIE
from app.container import AppState
from app.main import MAX_BODY_BYTES, create_app
from app.middleware import SECURITY_HEADERS
from app.settings import Settings
from tests.app.api.test_bad_input import ASK, CHAT, error_of
from tests.app.conftest import HEADERS, KEY, in_process
from tests.fakes import FakeGeneration

BODY = json.dumps(ASK).encode()


async def test_our_own_names(client: httpx.AsyncClient) -> None:
    for host in ("127.0.0.1:8000", "localhost", "LOCALHOST:9", "[::1]:8000", "127.0.0.1"):
        reply = await client.get("/health", headers={"Host": host})
        assert reply.status_code == 200, host


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost@evil.example",
        "[::1", "evil.example:8000", "localhost.", "0.0.0.0",
    ],
)  # fmt: skip
async def test_other_names_are_refused(client: httpx.AsyncClient, host: str) -> None:
    for path in ("/", "/health", "/v1/models", "/static/index.html"):
        reply = await client.get(path, headers={"Host": host})
        assert reply.status_code == 400, path
        assert reply.json()["error"]["code"] == "invalid_host"


async def test_a_configured_host_and_a_wildcard(settings: Settings, state: AppState) -> None:
    for bound, host, status in (
        ("dragon.lan", "Dragon.LAN:8000", 200),
        ("dragon.lan", "10.0.0.1", 400),
        ("0.0.0.0", "192.168.0.7:8000", 200),
        ("0.0.0.0", "evil.example", 400),
        ("::", "[2001:db8::1]:8000", 200),
    ):
        app = create_app(settings.model_copy(update={"host": bound}), state)
        async with in_process(app) as client:
            reply = await client.get("/health", headers={"Host": host})
            assert reply.status_code == status, (bound, host)


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/nothing", "/static/index.html"])
async def test_every_response_is_hardened(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.get(path)
    # The form says where it is from, to the device alone.
    expected = SECURITY_HEADERS | ({"Referrer-Policy": "same-origin"} if path == "/" else {})
    for name, value in expected.items():
        assert reply.headers[name] == value
    assert "access-control-allow-origin" not in reply.headers


async def test_an_unexpected_failure_is_hardened_too_and_logged_with_its_id(
    client: httpx.AsyncClient, generation: FakeGeneration, caplog: pytest.LogCaptureFixture
) -> None:
    generation.refuse = RuntimeError("a secret of the engine")
    reply = await client.post(CHAT, json=ASK, headers={"X-Request-Id": "my-request.7"})
    assert reply.status_code == 500
    assert reply.headers["content-security-policy"]
    assert reply.headers["x-request-id"] == "my-request.7"
    failures = [r for r in caplog.records if r.exc_info]
    assert len(failures) == 1
    assert "my-request.7" in failures[0].getMessage()


async def test_request_ids(client: httpx.AsyncClient) -> None:
    for given in ("abc-1.2_3", "a" * 128):
        reply = await client.get("/health", headers={"X-Request-Id": given})
        assert reply.headers["x-request-id"] == given
    for given in ("", "two words", "a" * 129, 'x"><script>'):
        reply = await client.get("/health", headers={"X-Request-Id": given})
        assert reply.headers["x-request-id"] not in ("", given)


async def test_the_log_never_holds_the_key_or_the_prompt(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.get(f"/sign-in?key={KEY}", headers={"Sec-Fetch-Site": "none"})
    body = {**ASK, "messages": [{"role": "user", "content": "my diagnosis"}]}
    await client.post(CHAT, json=body)
    ours = [r for r in caplog.records if r.name.startswith("dragon")]
    assert ours
    assert not any(KEY in r.getMessage() or "diagnosis" in r.getMessage() for r in ours)


async def test_another_scheme_beside_the_cookie_proves_nothing(
    client: httpx.AsyncClient, state: AppState
) -> None:
    headers = {
        "Authorization": "Basic YTpi",
        "Cookie": f"dragon_session={state.auth.sessions.begin()}",
        "Origin": "http://evil.example",
    }
    reply = await client.post(CHAT, json=ASK, headers=headers)
    assert reply.json()["error"]["code"] == "cross_origin"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        (None, 200),
        ("http://127.0.0.1:3000", 403),
        ("http://evil.example", 403),
        ("null", 403),
    ],
)
async def test_the_cookie_is_only_good_for_our_own_page(
    client: httpx.AsyncClient, state: AppState, origin: str | None, status: int
) -> None:
    del client.headers["Authorization"]
    headers = {"Cookie": f"dragon_session={state.auth.sessions.begin()}"}
    if origin is not None:
        headers["Origin"] = origin
    reply = await client.post(CHAT, json=ASK, headers=headers)
    assert reply.status_code == status
    if status == 403:
        assert reply.json()["error"]["code"] == "cross_origin"


async def test_calls_beyond_what_could_wait_are_refused_at_once(
    client: httpx.AsyncClient, generation: FakeGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "MOST_CALLS", 2)
    generation.prefilling.set()
    calls = {asyncio.create_task(client.post(CHAT, json=ASK)) for _ in range(5)}
    waiting = calls
    while len(waiting) > 2:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    generation.prefilling.clear()
    replies = await asyncio.gather(*calls)
    assert sorted(reply.status_code for reply in replies) == [200, 200, 503, 503, 503]
    assert (await client.post(CHAT, json=ASK)).status_code == 200


async def test_calls_of_one_key_take_no_others_place(
    client: httpx.AsyncClient,
    state: AppState,
    generation: FakeGeneration,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However slowly it sends their bodies."""
    monkeypatch.setattr(middleware, "CALLS_FOR_ONE", 2)
    begun, held = asyncio.Semaphore(0), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        begun.release()
        yield b"{"
        await held.wait()
        yield json.dumps(ASK).encode()[1:]

    def post() -> Awaitable[httpx.Response]:
        kind = {"Content-Type": "application/json"}
        return client.post(CHAT, content=body(), headers=kind)

    slow = {asyncio.ensure_future(post()) for _ in "ab"}
    for _ in slow:
        await begun.acquire()
    refused = await client.post(CHAT, json=ASK)
    cookie = {"Cookie": f"dragon_session={state.auth.sessions.begin()}", "Authorization": ""}
    page = await client.post(CHAT, json=ASK, headers=cookie)
    held.set()
    assert (refused.status_code, page.status_code) == (503, 200)
    assert [each.status_code for each in await asyncio.gather(*slow)] == [200, 200]


PREFLIGHT = {
    "Origin": "http://localhost:3000",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


async def test_pages_of_other_origins_are_let_in_by_setting_and_with_the_key(
    settings: Settings, state: AppState
) -> None:
    origins = ("http://localhost:3000",)
    app = create_app(settings.model_copy(update={"cors_origins": origins}), state)
    async with in_process(app, {}) as client:
        asked = await client.options(CHAT, headers=PREFLIGHT)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == origins[0]
        origin = {"Origin": origins[0]}
        reply = await client.post(CHAT, json=ASK, headers=HEADERS | origin)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == origins[0]
        refused = await client.post(CHAT, json=ASK, headers=origin)
        assert refused.status_code == 401
        for each in (asked, reply, refused):
            assert "access-control-allow-credentials" not in each.headers
        cookie = {**origin, "Cookie": f"{COOKIE}={state.auth.sessions.begin()}"}
        refused = await client.post(CHAT, json=ASK, headers=cookie)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cross_origin")
        other = await client.options(
            "/v1/models", headers=PREFLIGHT | {"Origin": "http://localhost:3001"}
        )
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers


async def test_no_other_origin_is_let_in_by_default(client: httpx.AsyncClient) -> None:
    for method in ("OPTIONS", "GET"):
        reply = await client.request(method, "/v1/models", headers=PREFLIGHT)
        assert "access-control-allow-origin" not in reply.headers


async def posted(client: httpx.AsyncClient, body: bytes, packed: str) -> httpx.Response:
    headers = {"content-type": "application/json", "content-encoding": packed}
    return await client.post(CHAT, content=body, headers=headers)


async def test_a_head_is_a_get_without_its_body(client: httpx.AsyncClient) -> None:
    for path in ("/v1/models", "/health", "/api/tags"):
        whole, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert (await client.head(CHAT)).status_code == 405


async def test_a_slash_at_the_end(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models/")).json() == (await client.get("/v1/models")).json()
    assert (await client.post(f"{CHAT}/", json=ASK)).status_code == 200
    assert (await client.post("/mcp/", json={})).status_code != 404
    client.headers.pop("Authorization")
    for path in ("/v1/models/", "/mcp/"):
        assert (await client.get(path)).status_code == 401


@pytest.mark.parametrize(
    ("packed", "body"), [("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY))]
)
async def test_packed_bodies(client: httpx.AsyncClient, packed: str, body: bytes) -> None:
    assert (await posted(client, body, packed)).status_code == 200


async def test_a_stream_answers_a_packed_body(client: httpx.AsyncClient) -> None:
    body = gzip.compress(json.dumps(ASK | {"stream": True}).encode())
    assert (await posted(client, body, "gzip")).text.endswith("data: [DONE]\n\n")


async def test_bodies_that_cannot_be_unpacked(client: httpx.AsyncClient) -> None:
    assert error_of(await posted(client, b"gibberish", "gzip"))["code"] == "invalid_json"
    assert (await posted(client, gzip.compress(BODY)[:20], "gzip")).status_code == 400
    assert (await posted(client, BODY, "br")).status_code == 415


async def test_a_bomb_is_as_large_as_what_it_unpacks_to(client: httpx.AsyncClient) -> None:
    reply = await posted(client, gzip.compress(b" " * (MAX_BODY_BYTES + 1)), "gzip")
    assert reply.status_code == 413
    assert error_of(reply)["code"] == "request_too_large"
