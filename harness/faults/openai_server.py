"""A model server that speaks OpenAI's completions as vLLM does, and misbehaves when told to.

A real model behind real sockets: `python -m harness.faults.openai_server MODEL --port 8000`, or
`serving` in this process, where a test changes its behaviour while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from dragon.inference.backends.backend import Backend
from dragon.inference.choice import ModelChoice
from dragon.inference.tokenizer import Tokenizer
from harness import services, warm
from harness.services import Service

_KEPT = 4


@dataclass
class Behaviour:
    """What the server does, and the requests it got.

    `root` is where it claims its model is. It names `most` likeliest tokens, by ids (`names_ids`)
    or by text. `statuses` are the replies to the next requests for completions, with headers. After
    `tokens` of a stream it does what `fault` says, once: `die` (hang up), `fail` (report a
    failure), `babble` (send something invalid), `freeze` (send nothing more until `thaw`).
    `pause_s` precedes every token.
    """

    key: str = ""
    models: tuple[str, ...] = ("dragon-7m",)
    root: str = ""
    completes: bool = True
    logprobs: bool = True
    takes_ids: bool = True
    names_ids: bool = True
    detokenizes: bool = True
    most: int = 20
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    fault: str = ""
    tokens: int = 3
    pause_s: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    thaw: threading.Event = field(default_factory=threading.Event)


class Served:
    """A model and its tokenizer, one text at a time; it keeps the last texts, as servers do."""

    def __init__(self, tokenizer: Tokenizer, model: Backend) -> None:
        self.tokenizer = tokenizer
        self.context = model.context
        self._model = model
        self._lock = threading.Lock()
        slots = model.cache.acquire(_KEPT)
        assert slots is not None
        self._texts: dict[int, list[int]] = {slot: [] for slot in slots}

    def after(self, text: list[int]) -> torch.Tensor:
        """Log-probabilities float32 [V] of the token after a text."""
        with self._lock:
            # The slot that shares most of it; of several the least recently used.
            slot = max(self._texts, key=lambda slot: _shared(self._texts[slot], text))
            start = min(_shared(self._texts.pop(slot), text), len(text) - 1)
            logits = self._model.forward([slot], [start], torch.tensor([text[start:]]), 1)[0, -1]
            self._texts[slot] = list(text)
        return torch.log_softmax(logits, -1)


def _shared(one: list[int], two: list[int]) -> int:
    """The length of the common prefix."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b),
        min(len(one), len(two)),
    )


def create_app(served: Served, behaviour: Behaviour) -> FastAPI:
    """The server's ASGI app."""

    def guard(request: Request) -> None:
        if behaviour.key and request.headers.get("authorization") != f"Bearer {behaviour.key}":
            raise HTTPException(401, "Unauthorized")

    app = FastAPI(openapi_url=None, dependencies=[Depends(guard)])

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        about = {"owned_by": "vllm", "max_model_len": served.context, "root": behaviour.root}
        return {"object": "list", "data": [{"id": name} | about for name in behaviour.models]}

    @app.post("/detokenize")
    async def detokenize(body: dict[str, Any]) -> Response:
        if not behaviour.detokenizes:
            return _error(404, "Not Found")
        return JSONResponse({"prompt": served.tokenizer.decode(body["tokens"], special=True)})

    @app.post("/v1/completions")
    async def completions(body: dict[str, Any]) -> Response:
        behaviour.asked.append(body)
        if not behaviour.completes:
            return _error(404, "Not Found")
        if behaviour.statuses:
            status, headers = behaviour.statuses.pop(0)
            return _error(status, "come back later", headers)
        if body["logprobs"] > behaviour.most:
            return _error(400, f"greater than max allowed: {behaviour.most}")
        if isinstance(body["prompt"], list) and not behaviour.takes_ids:
            return _error(400, "prompt: Input should be a valid string")
        events = _events(served, behaviour, body)
        if body["stream"]:
            return StreamingResponse(_streamed(events), media_type="text/event-stream")
        return JSONResponse(await anext(events))

    return app


async def _streamed(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield b"data: " + json.dumps(event).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


async def _events(
    served: Served, behaviour: Behaviour, body: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    prompt = body["prompt"]
    text = list(prompt) if isinstance(prompt, list) else served.tokenizer.parsed(prompt)
    count = len(text)
    for written in range(body["max_tokens"]):
        if behaviour.fault and written == behaviour.tokens:
            fault, behaviour.fault = behaviour.fault, ""
            match fault:
                case "die":
                    raise ConnectionResetError
                case "fail":
                    yield {"error": {"message": "out of memory"}}
                case "babble":
                    yield {"choices": "none"}
                case _:
                    await asyncio.to_thread(behaviour.thaw.wait)
        await asyncio.sleep(behaviour.pause_s)
        logprobs = await asyncio.to_thread(served.after, text)
        values, tokens = (each.tolist() for each in logprobs.topk(body["logprobs"]))
        text.append(tokens[0])
        names = [_name(served.tokenizer, behaviour, body, token) for token in tokens]
        last = written == body["max_tokens"] - 1
        choice: dict[str, Any] = {
            "index": 0,
            "text": served.tokenizer.decode(tokens[:1]),
            "finish_reason": "length" if last else None,
        }
        if behaviour.logprobs:
            choice["logprobs"] = {
                "tokens": names[:1],
                "token_logprobs": values[:1],
                "top_logprobs": [dict(zip(names, values, strict=True))],
            }
        if behaviour.names_ids and body.get("return_token_ids"):
            choice["token_ids"] = tokens[:1]
        yield {"object": "text_completion", "choices": [choice], "usage": {"prompt_tokens": count}}


def _name(tokenizer: Tokenizer, behaviour: Behaviour, body: dict[str, Any], token: int) -> str:
    if behaviour.names_ids and body.get("return_tokens_as_token_ids"):
        return f"token_id:{token}"
    return tokenizer.decode([token], special=True)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": message}}, status, headers)


@contextlib.contextmanager
def serving(served: Served, behaviour: Behaviour) -> Iterator[str]:
    """The URL of a server on a thread of this process."""
    config = uvicorn.Config(create_app(served, behaviour), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the model server did not start")
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        behaviour.thaw.set()
        server.should_exit = server.force_exit = True
        thread.join()


@contextlib.contextmanager
def process(model: Path, log: Path, pause_ms: float) -> Iterator[Service]:
    """A server for a model's directory, in a process of its own."""
    port = services.free_port()
    arguments = [str(model), "--port", str(port), "--pause-ms", str(pause_ms)]
    started = warm.start("harness.faults.openai_server", arguments, os.environ, log)
    service = Service(started, port, log)
    with services.ended(service):
        services.wait_until_up(service, "/v1/models")
        yield service


def main() -> None:
    """Serve the given model until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pause-ms", type=float, default=0.0, help="before every token")
    options = parser.parse_args()
    torch.set_num_threads(1)
    served = Served(*ModelChoice(model=options.model).load())
    app = create_app(served, Behaviour(pause_s=options.pause_ms / 1000, most=256))
    uvicorn.run(app, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
