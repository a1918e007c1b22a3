"""Answering alone with the cloud's documents: fetched as text, or as KV in bfloat16.

Covers `app.peer_link.fetch`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, step
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.retrieval.prompt_rows import document_rows, quotes_of
from dragon.sampling import mixture
from dragon.sampling.params import Sampling
from harness import services
from harness.models import SMALL_MODEL
from harness.reference import Passage
from harness.services import Setup
from tests.contract.asking import Ask, Reply, ask_all, upload
from tests.contract.conftest import Pair, linked

pytestmark = pytest.mark.services
QUESTION = "What is the capital of Kenya, and what is my gym locker's code?"
NOTE = "Gym opens at six on weekdays. Mine is locker 118 and the code is 4096-B."
TOKENS = 12


@pytest.fixture(scope="module")
def pair(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both models in bfloat16, whose KV the link carries as it is."""
    env = {"DRAGON_EXACT": "true", "DRAGON_DTYPE": "bfloat16"}
    setup = Setup(tmp_path_factory.mktemp("fetch"), env)
    with linked(setup, corpus) as pair:
        upload(pair.device, "gym.txt", NOTE)
        services.wait_joint(pair.device)
        yield pair


def ask(pair: Pair, mode: str) -> Reply:
    (reply,) = ask_all(pair.device, [Ask(QUESTION, mode, temperature=0.0, tokens=TOKENS)])
    return reply


def passages(reply: Reply) -> list[Passage]:
    return [Passage(source["text"], source["score"]) for source in reply.sources]


def written(tokenizer: Tokenizer, model: LanguageModel, rows: Sequence[Row]) -> str:
    """What the model writes alone, of rows it computes itself."""
    decoder = Decoder(model, rows, tokenizer.conversation([Message("user", QUESTION)]))
    assert decoder.acquire()
    decoder.prefill()
    text: list[int] = []
    while len(text) < TOKENS and not (text and text[-1] in tokenizer.end_ids):
        work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
        ((side,),) = step(model, [decoder], [work])
        text.append(mixture.draft(side, Sampling(temperature=0.0), len(text)))
    decoder.release()
    return tokenizer.decode([token for token in text if token not in tokenizer.end_ids])


@pytest.fixture
def model(tokenizer: Tokenizer) -> Iterator[LanguageModel]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the services: a sum's order depends on it
    yield LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size, dtype="bfloat16")
    torch.set_num_threads(threads)


def test_fetched_kv_equals_computed_rows(
    pair: Pair, tokenizer: Tokenizer, model: LanguageModel
) -> None:
    before = pair.network.down_bytes
    reply = ask(pair, "context_kv")
    received = pair.network.down_bytes - before
    assert {source["side"] for source in reply.sources} == {"private", "public"}
    rows, kept = document_rows(
        tokenizer, passages(reply), model.context, raw=False, quotes=model.quotes
    )
    assert len(kept) == len(reply.sources)
    assert reply.text == written(tokenizer, model, rows)
    assert reply.participation == []
    public = [
        len(row.tokens)
        for row, source in zip(rows, reply.sources, strict=True)
        if source["side"] == "public"
    ]
    kv = sum(map(model.packed_bytes, public))
    assert kv < received < 1.1 * kv + 4096


def test_fetched_text_joins_the_devices_own(
    pair: Pair, tokenizer: Tokenizer, model: LanguageModel
) -> None:
    before = pair.network.down_bytes
    reply = ask(pair, "context_text")
    assert pair.network.down_bytes - before < 8192
    assert {source["side"] for source in reply.sources} == {"private", "public"}
    texts = [source["text"] for source in reply.sources]
    row = Row(tuple(tokenizer.document_row("\n\n".join(texts))), 0.0)
    rows = [replace(row, quotes=quotes_of(tokenizer, texts))]
    assert reply.text == written(tokenizer, model, rows)


@pytest.mark.parametrize("mode", ["context_text", "context_kv"])
def test_a_peer_that_is_lost_meanwhile_leaves_the_devices_documents(pair: Pair, mode: str) -> None:
    # A ping may use up the bytes first: a peer that is stopped does not let the device in again.
    pair.peer.signal(signal.SIGSTOP)
    try:
        pair.network.limit(10)  # cuts within the request
        reply = ask(pair, mode)
    finally:
        pair.peer.signal(signal.SIGCONT)
    assert {source["side"] for source in reply.sources} == {"private"}
    services.wait_joint(pair.device)


def test_a_private_answer_fetches_nothing(pair: Pair) -> None:
    (reply,) = ask_all(pair.device, [Ask(QUESTION, "context_kv", tokens=2, private=True)])
    assert {source["side"] for source in reply.sources} == {"private"}


def test_kv_of_another_model_is_refused_and_not_used(pair: Pair, corpus: Path) -> None:
    """A device of another type of number: its answer goes on with its own documents."""
    data = pair.device.log.parent / "float32"
    setup = Setup(data, {"DRAGON_DTYPE": "float32"})
    with services.device(setup, pair.network.port) as device:
        upload(device, "gym.txt", NOTE)
        services.wait_joint(device)
        (reply,) = ask_all(device, [Ask(QUESTION, "context_kv", tokens=2)])
        assert {source["side"] for source in reply.sources} == {"private"}
        assert "DRAGON_DTYPE" in device.log.read_text()
