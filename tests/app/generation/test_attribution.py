"""What is told of an answer's tokens: in order, each once, when its text is final.

Covers `app.generation.events`.
"""

from __future__ import annotations

import pytest
import torch

from app.generation.answer import AnswerDetails
from app.generation.events import TokenDetail
from dragon.inference import distribution
from dragon.inference.distribution import DetailedSide, FullDistribution
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.state import Settled
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import cut

TOP = 3


def side(tokenizer: Tokenizer, seed: int) -> Side:
    logits = torch.randn(2, tokenizer.vocab_size, generator=torch.Generator().manual_seed(seed))
    full = FullDistribution.of(logits * 4, torch.tensor([0.75, 0.25], dtype=torch.float64))
    return DetailedSide(cut(full.mixed.exp().numpy()).wire, 0, full)


class Table:
    """An answer's tokens, those in `joint` written with the cloud, and their details."""

    def __init__(self, tokenizer: Tokenizer, text: str, joint: set[int] | None = None) -> None:
        self.tokens = tokenizer.encode(text)
        every = range(len(self.tokens))
        joint = set(every) if joint is None else joint
        device = [side(tokenizer, 2 * t) for t in every]
        cloud = [side(tokenizer, 2 * t + 1) for t in every]
        self.own = [
            Settled(t, self.tokens[t], device[t], cloud[t] if t in joint else None) for t in every
        ]
        self.details = AnswerDetails(TOP, tokenizer)
        self.details.own_sources, self.details.cloud_weights = 2, (0.6, 0.4)
        self._described: list[TokenDetail] = []

    @property
    def told(self) -> list[TokenDetail]:
        """The tokens described so far."""
        self._described += self.details.take_described()
        return self._described


def test_every_token_is_told_once_and_in_order(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.")
    table.details.take(table.own[:3], 10)
    table.details.take(table.own[3:], 25)
    assert [detail.position for detail in table.told] == list(range(len(table.own)))
    assert table.details.take_described() == ()
    assert "".join(detail.text for detail in table.told) == "The key is under the mat."
    for detail, settled in zip(table.told, table.own, strict=True):
        assert "The key is under the mat."[detail.start : detail.end] == detail.text
        assert detail.cloud is not None
        assert 0.0 <= detail.cloud <= 1.0
        assert abs(sum(detail.documents) - 1.0) < 1e-5
        assert abs(sum(detail.documents[2:]) - detail.cloud) < 1e-5
        assert len(detail.top) == TOP
        assert detail.logprob == distribution.estimate(settled, TOP).logprob


def test_the_cloud_s_share_is_split_as_it_says_or_else_by_weight(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key")
    first = table.own[0]
    told = Settled(first.position, first.token, first.own, first.remote, (0.25, 0.75))
    table.details.take([told, first], 7)
    said, weighed = (detail.documents[2:] for detail in table.told)
    assert said == pytest.approx([sum(said) * 0.25, sum(said) * 0.75])
    assert weighed == pytest.approx([sum(weighed) * 0.6, sum(weighed) * 0.4])


def test_what_the_device_wrote_alone_is_its_own(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.", joint={0, 1})
    table.details.take(table.own, 25)
    found = table.told[4]
    expected = distribution.estimate(table.own[4], TOP)
    assert (found.logprob, found.top, found.cloud) == (expected.logprob, expected.top, 0.0)
    assert found.documents[2:] == (0.0, 0.0)
    assert [detail.tv is None for detail in table.told[:3]] == [False, False, True]


def test_text_that_a_stop_string_may_cut_is_held_back(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.", joint=set())
    table.details.take(table.own, 9)  # "The key i", the rest may begin a stop string
    assert "".join(detail.text for detail in table.told) == "The key"
    table.details.end(9, stopped=True)
    assert table.told[-1].text == " is"
    assert (table.told[-1].start, table.told[-1].end) == (7, 9)


def test_the_token_that_ends_the_answer_has_no_room_in_it(tokenizer: Tokenizer) -> None:
    end = min(tokenizer.end_ids)
    table = Table(tokenizer, "The key", joint=set())
    last = Settled(len(table.own), end, table.own[0].own, None)
    table.details.take([*table.own, last], 7)
    table.details.end(7, stopped=False)
    assert table.told[-1].token == end
    assert (table.told[-1].start, table.told[-1].end) == (7, 7)
    assert table.told[-1].text != ""


def test_a_character_of_several_tokens_is_where_it_is_complete(tokenizer: Tokenizer) -> None:
    text = "a\U0001f511b"
    table = Table(tokenizer, text, joint=set())
    assert len(table.tokens) > 3
    table.details.take(table.own, len(text))
    table.details.end(len(text), stopped=False)
    spans = [(detail.start, detail.end) for detail in table.told]
    assert spans[0] == (0, 1)
    assert spans[-1] == (2, 3)
    assert set(spans[1:-2]) == {(1, 1)}
    assert spans[-2] == (1, 2)
    assert b"".join(tokenizer.piece(detail.token) for detail in table.told).decode() == text
