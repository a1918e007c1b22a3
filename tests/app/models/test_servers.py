"""Model servers on this machine: real sockets, on ports of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.models.found import running
from app.models.model import ModelKind
from harness import llama_server
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL


@contextmanager
def listening(status: int, body: Any) -> Iterator[int]:
    """A server that answers every request alike; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def found(monkeypatch: pytest.MonkeyPatch, status: int, body: Any) -> tuple[int, list[Any]]:
    with listening(status, body) as port:
        monkeypatch.setattr("app.models.found.PORTS", {port: "llama-server"})
        return port, list(running(lambda url: None))


def listed(*models: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(models)}


def test_a_server_of_one_model_is_set_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    one = listed({"id": "qwen", "owned_by": "llamacpp", "meta": {"size": 4_000}})
    port, (model,) = found(monkeypatch, 200, one)
    assert (model.kind, model.setting) == (ModelKind.SERVER, f"http://127.0.0.1:{port}")
    assert (model.where, model.size) == (f"llama-server on port {port}: qwen", 4_000)
    assert "DRAGON_TOKENIZER" in model.hint
    assert model.settings == {
        "DRAGON_MODEL": model.setting,
        "DRAGON_MODEL_NAME": "",
        "DRAGON_TOKENIZER": "",
    }


def test_each_model_of_a_server_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    port, models = found(monkeypatch, 200, listed({"id": "a"}, {"id": "b:1b"}))
    url = f"http://127.0.0.1:{port}"
    assert [model.name for model in models] == [f"{url}#a", f"{url}#b:1b"]
    assert [model.settings["DRAGON_MODEL_NAME"] for model in models] == ["a", "b:1b"]
    assert {model.setting for model in models} == {url}


def test_a_tokenizer_that_the_server_names_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """vLLM says which model it loaded, llama-server which file; here one reply has both."""
    _, (vllm,) = found(monkeypatch, 200, listed({"id": "q", "root": "Qwen/Qwen2.5-7B"}))
    assert (vllm.tokenizer, vllm.hint) == ("Qwen/Qwen2.5-7B", "")
    file = tmp_path / "a.gguf"
    file.touch()
    body = listed({"id": "a", "owned_by": "llamacpp"}) | {"model_path": str(file)}
    _, (llama,) = found(monkeypatch, 200, body)
    assert (llama.tokenizer, llama.hint) == (str(file), "")


@pytest.mark.parametrize("body", [{"error": "no"}, b"Unauthorized"])
def test_a_server_that_wants_a_key_says_so(monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    _, (model,) = found(monkeypatch, 401, body)
    assert "DRAGON_MODEL_KEY" in model.refusal
    assert model.wants_key


def test_only_a_server_that_asks_for_a_key_is_sent_it(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    behaviour = Behaviour(key="sesame", root=str(SMALL_MODEL))
    with serving(served, behaviour) as url:
        monkeypatch.setattr("app.models.found.PORTS", {int(url.rpartition(":")[2]): "vLLM"})
        (closed,) = running(lambda asked: SecretStr("guessed"))
        assert (closed.wants_key, str(closed.refusal)) == (True, "It does not accept this key.")
        given = {url: SecretStr("sesame")}
        (model,) = running(given.get)
        assert (model.refusal, model.key) == ("", given[url])
        assert model.tokenizer == str(SMALL_MODEL)
        behaviour.key = ""
        (model,) = running(given.get)
        assert model.key is None


def test_llama_server_lists_its_models_to_anybody(
    monkeypatch: pytest.MonkeyPatch, embedded_gguf: Path, tmp_path: Path
) -> None:
    """All else it says to who has the key."""
    with llama_server.serving(embedded_gguf, tmp_path / "log", key="sesame") as server:
        monkeypatch.setattr("app.models.found.PORTS", {server.port: "llama-server"})
        (closed,) = running(lambda url: None)
        assert closed.wants_key
        (model,) = running(lambda url: SecretStr("sesame"))
    assert model.tokenizer == str(embedded_gguf)
    assert model.key


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, listed({"id": "dragon-7m", "owned_by": "dragon"})),
        (200, b"<html>"),
        (200, {"data": None}),
        (200, []),
        (404, {"detail": "no"}),
    ],
)
def test_what_is_no_server_of_models_and_ourselves_are_left_out(
    monkeypatch: pytest.MonkeyPatch, status: int, body: Any
) -> None:
    assert found(monkeypatch, status, body)[1] == []


def test_a_reply_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = threading.Event()

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(256):  # MiB: the end that a careless reader would find
                    self.wfile.write(b" " * (1 << 20))
            except OSError:
                cut.set()

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Endless) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        monkeypatch.setattr("app.models.found.PORTS", {server.server_port: "Ollama"})
        assert list(running(lambda url: None)) == []
        thread.join()
    assert cut.is_set()
