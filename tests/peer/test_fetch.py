"""Document KV of the peer: it waits for a slot, and gives it back.

Covers `peer.context` and `peer.serving`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.backends.torch.cache import TensorKV
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.bodies import Bulk
from dragon.link.registry import Message
from dragon.retrieval.relevance import Hit
from peer.context import PeerMetrics, Shared
from peer.serving import CloudFetch
from tests import tiny

HIT = Hit(1, "a", "A", "Nairobi lies in Kenya.", 0.9, 3.0)


class OneDocument:
    """A retriever that knows one."""

    async def search(self, query: str, top_k: int) -> list[Hit]:
        return [HIT]


async def collect(messages: AsyncIterator[Message]) -> list[Message]:
    return [message async for message in messages]


@pytest.mark.timeout(120)
async def test_a_fetch_waits_for_a_slot(tmp_path: Path) -> None:
    path = tiny.save(tmp_path)
    tokenizer = Tokenizer.load(path)
    model = LanguageModel.load(path, tiny.VOCABULARY)
    engine = Engine(model)
    answers: list[Decoder] = []
    while engine.free_slots:
        answers.append(engine.open([Row(tuple(tokenizer.document_row("x")), 0.0)], [20]))
        await asyncio.wrap_future(answers[-1].prefilled)
    shared: dict[str, Any] = {
        "engine": engine,
        "tokenizer": tokenizer,
        "retriever": OneDocument(),
        "hello": control.Hello(),
        "max_sessions": 1,
        "metrics": PeerMetrics(lambda: 0),
        "decode": None,
        "usage": None,
    }
    asked = control.Fetch(query="?", top_k=1, raw=False, weights=model.weights)
    fetched = CloudFetch(Shared(**shared), asked).messages()
    assert isinstance(await anext(fetched), control.Fetched)
    rest = asyncio.ensure_future(collect(fetched))
    await asyncio.wrap_future(engine.submit_urgent(lambda: None))
    assert not rest.done()
    engine.close(answers.pop())
    data = b"".join(piece.data for piece in await rest if isinstance(piece, Bulk))
    assert len(data) == model.packed_bytes(len(tokenizer.document_row(HIT.text)))
    assert isinstance(TensorKV.unpack(data, *model._kv_shape), TensorKV)
    await asyncio.wrap_future(engine.submit_urgent(lambda: None))
    assert engine.free_slots == 1
    await asyncio.to_thread(engine.stop)
