from __future__ import annotations

import json
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.datastructures import Headers

from app.auth import (
    COOKIE,
    LINK_S,
    SESSION_S,
    Authenticator,
    BrowserSessions,
    api_key,
    needs_key,
    one_time_code,
)
from app.settings import Settings
from dragon.errors import AuthenticationError, ConfigurationError
from dragon.keys import NamedKey, digest_of
from tests.app.conftest import KEY


def test_the_key_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path / "new" / "data")
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(api_key, [settings] * 16))
    assert len(keys) == 1
    path = settings.data_dir / "api_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
    assert [p.name for p in settings.data_dir.iterdir()] == ["api_key"]
    assert path.read_text().strip() in keys


def test_a_key_that_is_set_wins(tmp_path: Path) -> None:
    assert api_key(Settings(_env_file=None, data_dir=tmp_path, api_key="mine")) == "mine"
    assert not (tmp_path / "api_key").exists()


def test_an_empty_key_file_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("\n")
    with pytest.raises(ConfigurationError, match="delete it"):
        api_key(Settings(_env_file=None, data_dir=tmp_path))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {KEY}"},
        {"x-api-key": "wrong"},
        {"x-api-key": KEY, "authorization": "Bearer wrong"},
        {"cookie": f"{COOKIE}=wrong"},
        {"cookie": f"{COOKIE}={KEY}"},
        {"cookie": '";;=;"'},
    ],
)
def test_others_stay_outside(headers: dict[str, str]) -> None:
    with pytest.raises(AuthenticationError):
        Authenticator(KEY).check(Headers(headers))


def test_a_wrong_key_beside_a_good_cookie_is_wrong() -> None:
    auth = Authenticator(KEY)
    cookie = f"a=b; {COOKIE}={auth.sessions.begin()}"
    auth.check(Headers({"cookie": cookie}))
    with pytest.raises(AuthenticationError, match="Incorrect"):
        auth.check(Headers({"cookie": cookie, "authorization": "Bearer wrong"}))
    with pytest.raises(AuthenticationError, match="Incorrect"):
        auth.check(Headers({"cookie": cookie, "x-api-key": "wrong"}))


def test_browsers_stay_signed_in_over_a_restart_until_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sessions.json"
    token = BrowserSessions(KEY, path).begin()
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert BrowserSessions(KEY, path).key_of(token) == ""
    assert BrowserSessions("another key", path).key_of(token) is None
    later = time.time() + SESSION_S + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert BrowserSessions(KEY, path).key_of(token) is None
    path.write_text("damaged")
    assert BrowserSessions(KEY, path).key_of(token) is None


def test_a_link_that_was_used_is_used_after_a_restart(tmp_path: Path) -> None:
    code = one_time_code(KEY, time.time())
    path = tmp_path / "sessions.json"
    assert Authenticator(KEY, path).accepts_code(code)
    assert not Authenticator(KEY, path).accepts_code(code)


def test_a_clock_that_was_years_ahead_leaves_nobody_signed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, path = time.time(), tmp_path / "sessions.json"
    used = one_time_code(KEY, now)
    assert Authenticator(KEY, path).accepts_code(used)
    monkeypatch.setattr(time, "time", lambda: now + 10 * SESSION_S)
    ahead = Authenticator(KEY, path)
    assert ahead.accepts_code(one_time_code(KEY, time.time()))
    token, unused = ahead.sessions.begin(), one_time_code(KEY, time.time())
    assert ahead.sessions.key_of(token) == ""
    monkeypatch.setattr(time, "time", lambda: now)
    assert ahead.sessions.key_of(token) is None
    assert not ahead.accepts_code(unused)
    assert not ahead.accepts_code(used)
    token = ahead.sessions.begin()
    monkeypatch.setattr(time, "time", lambda: now - 3600)  # an hour that comes twice
    assert ahead.sessions.key_of(token) == ""


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/api/status"])
async def test_the_gate_says_what_to_send(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.get(path, headers={"Authorization": "Bearer nö".encode()})
    assert reply.status_code == 401
    assert reply.json()["error"]["code"] == "invalid_api_key"
    assert reply.headers["www-authenticate"] == "Bearer"
    assert (await client.get(path, headers={"Authorization": f"bearer {KEY}"})).status_code != 401


async def test_an_unknown_caller_is_refused_before_the_body_is_looked_at(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.post(
        "/v1/completions", content=b"{", headers={"Authorization": "Bearer wrong"}
    )
    assert reply.status_code == 401


def test_what_is_open_to_all_is_known(app: FastAPI) -> None:
    paths = set[str]()
    for route in app.routes:
        included = getattr(route, "original_router", None)
        paths |= {each.path for each in (included.routes if included else [route])}
    assert {path for path in paths if not needs_key(path)} == {
        *("/", "/sign-in", "/static", "/service-worker.js", "/manifest.webmanifest"),
        *("/health", "/ready", "/metrics", "/openapi.json"),
    }


def test_a_session_of_a_named_key_is_never_the_devices_own(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    key = NamedKey(name="anna", digest="0" * 64)
    sessions = BrowserSessions(KEY, path)
    hers, own = sessions.begin(key), sessions.begin()
    again = BrowserSessions(KEY, path)
    assert (again.key_of(hers), again.key_of(own)) == (key.digest, "")
    again.end(hers)
    assert BrowserSessions(KEY, path).key_of(hers) is None


def test_the_file_of_an_earlier_release_is_taken_over(tmp_path: Path) -> None:
    path, now = tmp_path / "sessions.json", time.time()
    key, code = NamedKey(name="anna", digest="0" * 64), one_time_code(KEY, now)
    kept = {
        "key": digest_of(KEY),
        "sessions": {digest_of("own"): now + SESSION_S},
        "named": {digest_of("hers"): [now + SESSION_S, key.digest]},
        "spent": {code.rpartition(".")[0]: now + LINK_S},
    }
    path.write_text(json.dumps(kept))
    auth = Authenticator(KEY, path)
    assert not auth.accepts_code(code)
    assert auth.accepts_code(one_time_code(KEY, now))  # and the file is written anew
    for each in (auth, Authenticator(KEY, path)):
        assert (each.sessions.key_of("own"), each.sessions.key_of("hers")) == ("", key.digest)
        assert not each.accepts_code(code)
