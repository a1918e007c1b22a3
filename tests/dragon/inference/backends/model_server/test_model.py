"""A model server against torch: the same model, and what a step asks the server for.

Covers `dragon.inference.backends.model_server.dialects`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from dragon.errors import InvalidRequestError, ModelServerError, PreemptedError
from dragon.inference.backends.backend import WHOLE_ANSWERS, Backend, require_full
from dragon.inference.backends.model_server.dialects import LIKELIEST
from dragon.inference.backends.model_server.model import AHEAD, ModelServer
from dragon.inference.tokenizer import Message, Tokenizer
from harness.faults.openai_server import Behaviour, Served
from harness.services import Service
from tests.dragon.inference.backends.model_server.conftest import (
    Running,
    forward,
    openai_style,
    write,
)
from tests.dragon.inference.backends.same_model import among, check_random_texts, greedy

TEXT = "The lighthouse of Askham was built in 1848. Its keeper was Obadiah Thornley, who fed gulls."
QUESTION = [Message("user", "Who kept the lighthouse of Askham?")]


@pytest.fixture(scope="module")
def llama(llama_server: Service, tokenizer: Tokenizer) -> Iterator[ModelServer]:
    model = ModelServer(llama_server.url, tokenizer, key="sesame")
    yield model
    model.close()


@pytest.fixture(scope="module")
def words(tokenizer: Tokenizer) -> list[int]:
    return tokenizer.document_row(TEXT) + tokenizer.conversation(QUESTION)


def test_llama_server_runs_the_same_model(
    llama: ModelServer, reference: Backend, words: list[int]
) -> None:
    assert llama.name == reference.name
    assert llama.ends == reference.ends
    assert llama.context == reference.context - 1  # a token of it is for what is written
    check_random_texts(llama, reference, words * 9, LIKELIEST)


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(most=20),
        Behaviour(most=256),
        Behaviour(names_ids=False),
        Behaviour(names_ids=False, detokenizes=False),
        Behaviour(names_ids=False, takes_ids=False),
    ],
    ids=["vllm", "more likeliest", "texts out", "no detokenize", "text only"],
)
def test_openai_style_runs_the_same_model(
    served: Served, reference: Backend, tokenizer: Tokenizer, behaviour: Behaviour
) -> None:
    # Of text that is cut into the same tokens again, wherever it is broken off.
    words = tokenizer.encode(" a b c d e f g h i j k l m n o p q r s t u v w x y z")
    with openai_style(served, behaviour) as running:
        check_random_texts(running.model, reference, words, behaviour.most, turns=6)


def test_it_writes_the_text_of_torch(
    llama: ModelServer, vllm: Running, reference: Backend, tokenizer: Tokenizer
) -> None:
    rows = tokenizer.document_row(TEXT), tokenizer.conversation(QUESTION)
    assert greedy(llama, *rows) == greedy(vllm.model, *rows) == greedy(reference, *rows)


def test_a_text_that_the_server_continues_is_one_request(vllm: Running, words: list[int]) -> None:
    text = write(vllm.model, words, 20)
    assert len(vllm.behaviour.asked) == 1
    # Back into what the server wrote, and on as it did.
    forward(vllm.model, len(words) + 5, text[5:7])
    assert len(vllm.behaviour.asked) == 1


def test_a_correction_is_one_request_for_what_follows_it(
    vllm: Running, words: list[int], reference: Backend
) -> None:
    text = write(vllm.model, words, 5)
    other = text[4] + 1
    found = forward(vllm.model, len(words) + 4, [other])
    assert [asked["prompt"] for asked in vllm.behaviour.asked] == [
        words,
        [*words, *text[:4], other],
    ]
    wanted = reference.forward([1], [0], torch.tensor([[*words, *text[:4], other]]), 1)[0, 0]
    found = torch.softmax(found, -1)
    assert torch.allclose(found, among(found.log(), torch.softmax(wanted, -1)), atol=1e-4)


def test_a_long_text_is_asked_for_piece_by_piece(vllm: Running, words: list[int]) -> None:
    write(vllm.model, words, AHEAD + 2)
    assert [asked["max_tokens"] for asked in vllm.behaviour.asked] == [AHEAD, AHEAD]


def test_what_ends_a_text_may_be_corrected(
    llama: ModelServer, reference: Backend, words: list[int]
) -> None:
    (end,) = llama.ends
    found, wanted = (
        model.forward([0], [0], torch.tensor([[*words, end, *words[:3]]]), 4)
        for model in (llama, reference)
    )
    assert torch.allclose(
        torch.softmax(found, -1), among(found, torch.softmax(wanted, -1)), atol=0.03
    )


def test_a_released_row_is_no_longer_written(vllm: Running, words: list[int]) -> None:
    vllm.behaviour.fault = "freeze"
    slots = vllm.model.cache.acquire(1)
    forward(vllm.model, 0, words)
    stream = vllm.model._rows[slots[0]].stream
    vllm.model.cache.release(slots)
    with vllm.model._changed:
        assert vllm.model._changed.wait_for(lambda: stream.ended, 30)
    assert len(stream.positions) < AHEAD


def test_a_step_that_is_not_wanted_leaves_nothing_behind(vllm: Running, words: list[int]) -> None:
    before = forward(vllm.model, 0, words)
    vllm.behaviour.fault, vllm.behaviour.tokens = "freeze", 0
    # Not before the server has frozen, or it would freeze at the next request.
    frozen = lambda: not vllm.behaviour.fault  # noqa: E731
    with pytest.raises(PreemptedError):
        vllm.model.forward([0], [len(words)], torch.tensor([[8]]), 1, cancelled=frozen)
    again = forward(vllm.model, len(words) - 1, words[-1:])
    assert torch.allclose(again, before, atol=1e-4)  # the server computes it anew


def test_half_a_character_is_told_as_well(
    llama: ModelServer, reference: Backend, tokenizer: Tokenizer
) -> None:
    """llama-server says nothing of a token that is no whole character."""
    text = tokenizer.encode("日本語" * 30)
    found = llama.forward([0], [0], torch.tensor([text]), 9)[0]
    wanted = torch.softmax(reference.forward([0], [0], torch.tensor([text]), 9)[0], -1)
    pieces = [tokenizer.piece(int(token)) for token in wanted.argmax(-1)]
    assert any(not piece.decode(errors="ignore") for piece in pieces)
    assert torch.allclose(torch.softmax(found, -1), among(found, wanted), atol=0.03)


def test_text_that_no_tokens_are_cut_from_is_refused_in_a_sentence(
    served: Served, tokenizer: Tokenizer
) -> None:
    house = [*tokenizer.encode(" light"), *tokenizer.encode("ho"), *tokenizer.encode("use")]
    behaviour = Behaviour(takes_ids=False)
    with openai_style(served, behaviour) as running, pytest.raises(ModelServerError) as caught:
        forward(running.model, 0, house)
    assert caught.value.message == (
        "the model server takes text only, and no text is cut into exactly these tokens: run the "
        "model on a server that takes token ids, such as llama-server or vLLM"
    )


def test_what_needs_every_probability_is_refused(vllm: Running) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        require_full(vllm.model, *WHOLE_ANSWERS)
    assert caught.value.message == (
        "aggregation sequencewise needs the probability of every token, and dragon-7m names the "
        "likeliest only: use aggregation oneway, coupled or local, or use a model that torch runs"
    )
