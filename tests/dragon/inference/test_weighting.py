"""Re-scored weights: equal to scoring from scratch at every position, in any order of work.

Covers `dragon.inference.rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, Decoding, step
from dragon.inference.rows import Row
from dragon.inference.weighting import Rescoring, Weighting
from dragon.protocol.messages import Limits, Work
from dragon.sampling import mixture
from dragon.sampling.mixture import Side, fixed_log_h
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from dragon.sampling.role import Role
from tests import tiny
from tests.dragon.protocol.toy import END, ToyDecoder, World, toy_side

ROWS = [Row((5, 6, 7, 8), 1.0), Row((9, 10), 0.0)]
CONVERSATION = [20, 21]
EVERY = 3


def relevance(text: Sequence[int]) -> list[float]:
    """Nats a row: any function of the text."""
    return [0.3 * sum(text) % 5, 0.7 * len(text)]


def scratch(text: Sequence[int]) -> list[float]:
    """Relevance after `text`, from nothing but the definition."""
    since = len(text) - len(text) % EVERY
    return relevance(text[:since]) if since else [row.relevance for row in ROWS]


def expected(model: LanguageModel, text: Sequence[int]) -> Side:
    """The side after `text`: every row whole, without what a decoder holds."""
    nats = torch.tensor(scratch(text), dtype=torch.float64)
    slots = model.cache.acquire(1)
    mixed = torch.zeros(tiny.VOCABULARY)
    for weight, row in zip(torch.softmax(nats, 0), ROWS, strict=True):
        tokens = torch.tensor([[*row.tokens, *CONVERSATION, *text]])
        mixed += weight.float() * torch.softmax(model.forward(slots, [0], tokens, 1)[0, -1], -1)
    model.cache.release(slots)
    return Side(cut(mixed.numpy()).wire, fixed_log_h(float(torch.logsumexp(nats, 0))))


def assert_alike(got: Side, wanted: Side) -> None:
    """Equal but for the rounding of a forward of another shape."""
    assert got.log_h == wanted.log_h
    assert mixture.total_variation(got, wanted) < 1e-3


def prefilled(model: LanguageModel, rescoring: Rescoring | None) -> Decoder:
    decoder = Decoder(model, ROWS, CONVERSATION, Decoding(rescoring))
    assert decoder.acquire()
    decoder.prefill()
    return decoder


def test_steps_rollbacks_and_catch_up_equal_scoring_from_scratch(model: LanguageModel) -> None:
    decoder = prefilled(model, Rescoring(EVERY, relevance))
    text: list[int] = []
    works = [
        Work(0, (), 1, 0),
        *(Work(i, (30 + i,), 1, 0) for i in range(5)),
        Work(2, (50,), 1, 0),  # back before a re-scoring
        Work(3, (51, 52, 53, 54), 4, 0),  # across one
        Work(1, (60,), 1, 0),
        Work(0, (70, 71, 72, 73, 74, 75, 76), 8, 0),  # from the first position on, across two
        Work(6, (77,), 1, 0),
    ]
    for work in works:
        text[work.keep :] = work.tokens
        ((*sides,),) = step(model, [decoder], [work])
        assert len(sides) == work.outputs
        for back, side in enumerate(reversed(sides)):
            assert_alike(side, expected(model, text[: len(text) - back]))
    decoder.release()


def test_generations_in_one_batch_are_rescored_each_for_itself(model: LanguageModel) -> None:
    rescored = [prefilled(model, Rescoring(EVERY, relevance)) for _ in range(2)]
    static = prefilled(model, None)
    decoders = [*rescored, static]
    texts = [[40, 41, 42, 43], [50, 51, 52, 53], [40, 41, 42, 43]]
    works = [Work(0, tuple(text), 2, 0) for text in texts]
    for decoder, sides, text in zip(decoders, step(model, decoders, works), texts, strict=True):
        if decoder is static:
            assert {side.log_h for side in sides} == {decoder.weighting.first.log_h}
        else:
            for side, end in zip(sides, (3, 4), strict=True):
                assert_alike(side, expected(model, text[:end]))
        decoder.release()


def test_each_position_is_scored_once_while_the_text_stands() -> None:
    asked: list[tuple[int, ...]] = []

    def counted(text: Sequence[int]) -> list[float]:
        asked.append(tuple(text))
        return relevance(text)

    weighting = Weighting([1.0, 0.0], Rescoring(2, counted))
    for position, token in enumerate((3, 1, 4, 1)):
        weighting.follow(position, [token])
        weighting.at(position + 1)
    assert asked == [(3, 1), (3, 1, 4, 1)]
    weighting.follow(2, [5, 9])
    weighting.at(3)
    weighting.at(4)
    assert asked[2:] == [(3, 1, 5, 9)]


@dataclass
class RescoredToy(ToyDecoder):
    """A toy decoder whose log h is re-scored as a real one's."""

    weighting: Weighting = field(init=False)

    def __post_init__(self) -> None:
        self.weighting = Weighting([0.0], Rescoring(EVERY, self.relevance))

    def relevance(self, text: Sequence[int]) -> list[float]:
        return [toy_side(self.role, tuple(text)).log_h / 512]

    def run(self, work: Work, likeness: float) -> list[Side]:
        sides = super().run(work, likeness)
        self.weighting.follow(work.keep, work.tokens)
        first = len(self.fed) - len(sides) + 1
        return [
            replace(side, log_h=self.weighting.at(first + i).log_h) for i, side in enumerate(sides)
        ]


def slow_answer(sampling: Sampling, limits: Limits) -> list[int]:
    """The answer token by token, every weight from scratch."""

    def side(role: Role, text: list[int]) -> Side:
        since = len(text) - len(text) % EVERY
        nats = RescoredToy(role).relevance(text[:since])[0] if since else 0.0
        return replace(toy_side(role, tuple(text)), log_h=fixed_log_h(nats))

    text: list[int] = []
    while len(text) < limits.tokens and not (text and text[-1] in limits.end_ids):
        sides = (side(Role.DEVICE, text), side(Role.CLOUD, text))
        text.append(mixture.target(*sides, sampling, len(text)))
    return text


@pytest.mark.parametrize("catch_up", [False, True])
def test_coupled_text_is_the_same_whatever_the_interleaving(catch_up: bool) -> None:
    limits = Limits(frozenset({END}), 40)
    for seed in range(60):
        sampling = Sampling(temperature=1.0, seed=seed)
        world = World(seed, sampling, limits, catch_up=catch_up)
        world.decoders = {role: RescoredToy(role) for role in Role}
        assert world.run() == slow_answer(sampling, limits)
        assert world.resyncs == 0
