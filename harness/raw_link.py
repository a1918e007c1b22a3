"""A link to a peer, frame by frame, for frames that no device would send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from websockets.sync.client import ClientConnection, connect

from dragon.inference.tokenizer import Message, Tokenizer
from dragon.link import control, registry
from dragon.retrieval import relevance
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256
from dragon.retrieval.judge import Judge
from dragon.sampling.params import Mode, Sampling
from harness.models import SMALL_MODEL
from harness.services import KEY

QUESTION = "What is the capital of Kenya?"
WAIT_S = 60


@cache
def tokenizer() -> Tokenizer:
    """The embedded model's tokenizer."""
    return Tokenizer.load(SMALL_MODEL)


@cache
def _scale() -> str:
    return relevance.scale_of(PACKAGED_WEIGHTS_SHA256, Judge.load().fingerprint)


def hello(**changes: Any) -> registry.Frame:
    """A compatible device's greeting, except for the changes."""
    own = control.Hello(tokenizer=tokenizer().fingerprint, relevance=_scale(), model="another")
    return registry.encode(own.model_copy(update=changes))


def opening(stream: int, **changes: Any) -> registry.Frame:
    """A request to answer `QUESTION`, except for the changes."""
    asked = control.Open(
        conversation=tuple(tokenizer().conversation([Message("user", QUESTION)])),
        raw=False,
        query=QUESTION,
        mode=Mode.ONEWAY,
        sampling=Sampling(seed=1),
        max_tokens=400,
        top_k=1,
        catch_up=False,
    )
    return registry.encode(asked.model_copy(update=changes), stream)


@contextmanager
def link(port: int, key: str = KEY, **headers: str) -> Iterator[ClientConnection]:
    """A connection that has sent nothing yet."""
    with connect(
        f"ws://127.0.0.1:{port}/v1/link",
        additional_headers={"Authorization": f"Bearer {key}", **headers},
        compression=None,
        close_timeout=1,
    ) as connection:
        yield connection


@contextmanager
def greeted(port: int, key: str = KEY) -> Iterator[ClientConnection]:
    """A connection on which answers may be opened."""
    with link(port, key) as connection:
        connection.send(hello())
        assert next_control(connection)["kind"] == "hello"
        yield connection


def next_control(connection: ClientConnection) -> dict[str, Any]:
    """The next control message that is no ping."""
    while True:
        frame = connection.recv(timeout=WAIT_S)
        if isinstance(frame, str) and (message := json.loads(frame))["kind"] != "ping":
            return dict(message)
