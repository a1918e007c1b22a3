"""The likelihood of a text under one side: fast ways against whole forwards without a cache."""

from __future__ import annotations

import pytest
import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, step
from dragon.inference.rows import Row
from dragon.protocol.messages import Work
from tests import tiny

ROWS = [Row((5, 6, 7, 8), 1.0), Row((9, 10), 0.0)]
CONVERSATION = [20, 21]
TEXT = (30, 31, 32, 33, 34)


@pytest.fixture(scope="module", params=tiny.ARCHITECTURES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LanguageModel:
    path = tiny.save(tmp_path_factory.mktemp(request.param), request.param)
    return LanguageModel.load(path, tiny.VOCABULARY)


def opened(model: LanguageModel) -> Decoder:
    decoder = Decoder(model, ROWS, CONVERSATION)
    assert decoder.acquire()
    decoder.prefill()
    return decoder


def reference(model: LanguageModel, text: tuple[int, ...]) -> float:
    """log sum over rows of the row's weight times the product of its tokens' probabilities."""
    (slot,) = model.cache.acquire(1) or []
    weights = torch.softmax(torch.tensor([row.relevance for row in ROWS]).double(), 0)
    total = torch.zeros((), dtype=torch.float64)
    for row, weight in zip(ROWS, weights, strict=True):
        product = weight
        for end in range(len(text)):
            tokens = torch.tensor([[*row.tokens, *CONVERSATION, *text[:end]]])
            logits = model.forward([slot], [0], tokens, 1)[0, -1]
            product = product * torch.softmax(logits.double(), -1)[text[end]]
        total += product
    model.cache.release([slot])
    return float(torch.log(total))


def test_scored_at_once_in_pieces_or_as_it_is_written(model: LanguageModel) -> None:
    expected = reference(model, TEXT)
    ways = [
        [Work(0, TEXT[:-1], 0, 0, TEXT)],
        [Work(0, TEXT[:2], 0, 0, TEXT[:2]), Work(2, TEXT[2:4], 0, 0, TEXT[2:])],
        [Work(0, TEXT, 0, 0, TEXT)],
        [
            Work(0, (), 1, 0),
            *(Work(t, (token,), 1, 0, (token,)) for t, token in enumerate(TEXT[:-1])),
            Work(4, (), 0, 0, TEXT[-1:]),
        ],
    ]
    decoder = opened(model)
    for works in ways:
        for work in works:
            ((*sides,),) = step(model, [decoder], [work])
            assert len(sides) == work.outputs
        assert decoder.likelihood.value == pytest.approx(expected, abs=1e-3)
    decoder.release()


def test_a_text_grows_and_another_one_begins_anew(model: LanguageModel) -> None:
    decoder = opened(model)
    for text in (TEXT[:1], TEXT[:3], (40,), (40, 41, 42)):
        step(model, [decoder], [Work(0, text[:-1], 0, 0, text)])
        assert decoder.likelihood.value == pytest.approx(reference(model, text), abs=1e-3)
    with pytest.raises(AssertionError, match="from its beginning"):
        step(model, [decoder], [Work(1, (41,), 1, 0, (41,))])
    with pytest.raises(AssertionError, match="has ended"):
        step(model, [decoder], [Work(3, (), 0, 0, (43,))])
    decoder.release()


def test_scoring_and_decoding_share_a_forward(model: LanguageModel) -> None:
    one, other = opened(model), opened(model)
    score, decode = Work(0, TEXT[:3], 0, 0, TEXT[:4]), Work(0, TEXT[:3], 1, 0)
    (nothing, (side,)) = step(model, [one, other], [score, decode])
    assert nothing == []
    assert one.likelihood.value == pytest.approx(reference(model, TEXT[:4]), abs=1e-3)
    assert other.likelihood.value == 0.0
    ((again,),) = step(model, [other], [decode])
    assert abs(again.wire.total - side.wire.total) < 100
    assert again.wire.ids.tolist() == side.wire.ids.tolist()
    for decoder in (one, other):
        decoder.release()
