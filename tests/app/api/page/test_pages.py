"""The page, signing in and out, and in which language.

Covers `app.api.page.pages` and `app.api.page.languages`; texts are tested with the page.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from app.api.page.languages import texts
from app.auth import COOKIE, LINK_S, MAX_ATTEMPTS, one_time_code
from app.container import AppState
from app.documents.readers.sniff import ACCEPTED
from app.settings import Settings
from tests.app.conftest import KEY


@pytest.fixture
async def browser(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser knows no key, only cookies."""
    del client.headers["Authorization"]
    return client


OPENED = {"Sec-Fetch-Site": "none"}  # by a person, says the browser


async def test_signing_in_with_the_link(browser: httpx.AsyncClient) -> None:
    before = await browser.get("/")
    assert before.status_code == 401
    assert "open the sign-in link" in before.text
    assert "http://127.0.0.1:8000/sign-in?code=" in before.text

    reply = await browser.get(f"/sign-in?key={KEY}", headers=OPENED)
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    assert reply.headers["cache-control"] == "no-store"
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert KEY not in cookie

    page = await browser.get("/")
    assert page.status_code == 200
    assert "/static/js/main.js" in page.text
    assert (await browser.get("/v1/models")).status_code == 200
    status = await browser.get("/api/status")
    assert status.json() == {
        "model": "dragon-7m", "quotes": True, "context_length": 256, "vocabulary": 8192,
        "defaults": {"mode": "oneway", "cloud": "when_needed", "top_k": 2, "temperature": 0.15},
        "peer": {"state": "connected", "rtt_ms": 12.0, "detail": ""},
        "documents": 3, "accepted": ACCEPTED, "household": False, "signs_out": True,
    }  # fmt: skip


async def test_a_link_signs_in_once(browser: httpx.AsyncClient) -> None:
    code = one_time_code(KEY, time.time())
    ahead = await browser.get(f"/sign-in?code={code}", headers={"Sec-Purpose": "prefetch"})
    assert (ahead.status_code, "set-cookie" in ahead.headers) == (503, False)
    assert (await browser.get(f"/sign-in?code={code}")).status_code == 303
    assert (await browser.get("/")).status_code == 200
    again = await browser.get(f"/sign-in?code={code}")
    assert (again.status_code, again.headers["location"]) == (303, "/")
    browser.cookies.clear()
    again = await browser.get(f"/sign-in?code={code}")
    assert again.status_code == 401
    assert "no longer works" in again.text


async def test_no_code_is_worth_anything_for_long_or_of_another_key(
    browser: httpx.AsyncClient,
) -> None:
    stated, until, seal = one_time_code(KEY, time.time()).split(".")
    for code in (
        one_time_code(KEY, time.time() - LINK_S - 1),
        one_time_code("another key", time.time()),
        f"{stated}.{int(until) + 1}.{seal}",
        f"{stated}.{until}.", "..", "é.1.é",
    ):  # fmt: skip
        assert (await browser.get("/sign-in", params={"code": code})).status_code == 401, code


@pytest.mark.parametrize("query", ["", "?key=", "?key=wrong", "?key=%ff", "?token=test-key"])
async def test_a_wrong_link(browser: httpx.AsyncClient, query: str) -> None:
    reply = await browser.get(f"/sign-in{query}", headers=OPENED)
    assert reply.status_code == 401
    assert reply.headers["content-type"].startswith("text/html")
    assert "set-cookie" not in reply.headers
    assert "does not match" in reply.text


async def test_the_sign_in_page_is_whole_without_a_key(browser: httpx.AsyncClient) -> None:
    page = (await browser.get("/")).text
    linked = re.findall(r'(?:href|src)="(/[^"]*)"', page)
    assert len(linked) > 2
    for path in linked:
        assert (await browser.get(path)).status_code == 200


async def test_the_page_is_not_for_bearers_of_the_key_alone(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).status_code == 401


async def test_static_files(browser: httpx.AsyncClient) -> None:
    script = await browser.get("/static/js/main.js")
    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["cache-control"] == "no-cache"
    known = {"If-None-Match": script.headers["etag"]}
    assert (await browser.get("/static/js/main.js", headers=known)).status_code == 304
    assert (await browser.get("/static/")).status_code == 404


async def test_signing_in_with_a_pasted_key_and_out_again(
    browser: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = await browser.post("/sign-in", data={"key": "guessed"})
    assert (wrong.status_code, "not the key" in wrong.text) == (401, True)
    assert "a sign-in failed: POST 127.0.0.1" in caplog.messages
    reply = await browser.post("/sign-in", data={"key": f" {KEY} "})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = browser.cookies[COOKIE]
    assert (await browser.get("/")).status_code == 200
    assert (await browser.post("/api/sign-out")).status_code == 204
    assert COOKIE not in browser.cookies
    kept = await browser.get("/v1/models", headers={"Cookie": f"{COOKIE}={cookie}"})
    assert kept.status_code == 401


@pytest.mark.parametrize(
    ("host", "key", "signs_out"),
    [("127.0.0.1", None, False), ("127.0.0.1", KEY, True), ("0.0.0.0", None, True)],
)
async def test_who_never_signed_in_cannot_sign_out(
    browser: httpx.AsyncClient,
    state: AppState,
    app: FastAPI,
    host: str,
    key: str | None,
    signs_out: bool,
) -> None:
    """The printed link of a device of this machine alone is no sign-in to a person."""
    settings = Settings(_env_file=None, data_dir=state.settings.data_dir, host=host, api_key=key)
    app.state.dragon = replace(state, settings=settings)
    await browser.get(f"/sign-in?code={one_time_code(KEY, time.time())}")
    assert (await browser.get("/api/status")).json()["signs_out"] == signs_out


async def test_guessing_is_slowed_down(browser: httpx.AsyncClient) -> None:
    for _ in range(MAX_ATTEMPTS):
        assert (await browser.post("/sign-in", data={"key": "guessed"})).status_code == 401
    reply = await browser.post("/sign-in", data={"key": KEY})
    assert (reply.status_code, "Wait a minute" in reply.text) == (429, True)


ELSEWHERE = ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"})


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_no_other_page_has_a_browser_sign_in(
    browser: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    """It would be as whoever made the page, who then reads what is asked."""
    code = one_time_code(KEY, time.time())
    for refused in (
        await browser.get(f"/sign-in?key={KEY}", headers=headers),
        await browser.get(f"/sign-in?code={code}", headers=headers),
        await browser.post("/sign-in", data={"key": KEY}, headers=headers),
    ):
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "Another page sent you here." in refused.text
    # The link is as good as before.
    assert (await browser.get(f"/sign-in?code={code}", headers=OPENED)).status_code == 303


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3000"])
async def test_a_form_of_another_origin_is_refused_where_no_more_is_said(
    browser: httpx.AsyncClient, origin: str
) -> None:
    reply = await browser.post("/sign-in", data={"key": KEY}, headers={"Origin": origin})
    assert reply.status_code == 403
    ours = {"Origin": str(browser.base_url).rstrip("/")}
    assert (await browser.post("/sign-in", data={"key": KEY}, headers=ours)).status_code == 303
    # Of a link the browser has to say that a person opened it.
    assert (await browser.get(f"/sign-in?key={KEY}")).status_code == 403


async def test_images_of_another_page_lock_nobody_out(browser: httpx.AsyncClient) -> None:
    for number in range(2 * MAX_ATTEMPTS):
        for query in (f"code=bad-{number}", f"key=bad-{number}"):
            for headers in (*ELSEWHERE, OPENED, {}):
                reply = await browser.get(f"/sign-in?{query}", headers=headers)
                assert "set-cookie" not in reply.headers
    code = one_time_code(KEY, time.time())
    assert (await browser.get(f"/sign-in?code={code}")).status_code == 303
    assert (await browser.post("/sign-in", data={"key": KEY})).status_code == 303


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-CH,de;q=0.9,en;q=0.8", "de"),
        ("fr-FR, es;q=0.7", "es"),
        ("EN", "en"),
        ("fr", "en"),
        ("", "en"),
        (";q=x,,*", "en"),
    ],
)
def test_the_first_language_that_there_is(accepted: str, language: str) -> None:
    assert texts(accepted)["language"] == language


async def test_the_sign_in_page_has_no_blank_left(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/", headers={"Accept-Language": "de"})
    assert "Dieser Browser ist nicht angemeldet." in page.text
    assert 'lang="de"' in page.text
    assert "{" not in page.text
