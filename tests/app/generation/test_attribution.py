"""What is told of an answer's tokens: in order, each once, whatever the cloud does.

Covers `app.generation.events`.
"""

from __future__ import annotations

import torch

from app.generation.attribution import AnswerDetails
from app.generation.events import TokenDetail
from dragon.inference import logprobs
from dragon.inference.distribution import DetailedSide, FullDistribution
from dragon.inference.logprobs import Values, cloud_detail
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.committed_text import Settled
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import cut
from peer.logprobs import CloudDetails

TOP = 3


def side(tokenizer: Tokenizer, seed: int) -> Side:
    logits = torch.randn(2, tokenizer.vocab_size, generator=torch.Generator().manual_seed(seed))
    full = FullDistribution.of(logits * 4, torch.tensor([0.75, 0.25], dtype=torch.float64))
    return DetailedSide(cut(full.mixed.exp().numpy()).wire, 0, full)


class Table:
    """An answer's details on the device, and what the cloud would say to them."""

    def __init__(self, tokenizer: Tokenizer, text: str, joint: set[int] | None = None) -> None:
        self.tokens = tokenizer.encode(text)
        every = range(len(self.tokens))
        joint = set(every) if joint is None else joint
        device = [side(tokenizer, 2 * t) for t in every]
        cloud = [side(tokenizer, 2 * t + 1) for t in every]
        self.own = [
            Settled(t, self.tokens[t], 100 + t, device[t], cloud[t] if t in joint else None)
            for t in every
        ]
        theirs = [Settled(t, self.tokens[t], 100 + t, cloud[t], device[t]) for t in every]
        self.peer = CloudDetails(TOP)
        self.said = list(self.peer.of(theirs))
        self.details = AnswerDetails(TOP, tokenizer)
        self.details.own_sources, self.details.sources = 2, 4
        self._described: list[TokenDetail] = []

    def hear(self, position: int) -> None:
        """The cloud describes a token, and answers at once what is asked then."""
        self.details.receive(self.said[position])
        while questions := self.details.take_questions():
            for question in questions:
                self.details.receive(self.peer.answer(question))

    @property
    def told(self) -> list[TokenDetail]:
        """The tokens described so far."""
        self._described += self.details.take_described()
        return self._described

    @property
    def positions(self) -> list[int]:
        return [detail.position for detail in self.told]


def test_tokens_are_told_in_order_once_the_cloud_has_spoken(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.")
    table.details.take(table.own, 25)
    assert table.told == []
    assert not table.details.complete
    for position in range(len(table.own)):
        table.hear(position)
        table.hear(position)  # once more, as after a resync
        assert table.positions == list(range(position + 1))
    assert table.details.complete
    assert "".join(detail.text for detail in table.told) == "The key is under the mat."
    for detail in table.told:
        assert "The key is under the mat."[detail.start : detail.end] == detail.text
        assert detail.cloud is not None
        assert 0.0 < detail.cloud < 1.0
        assert abs(sum(detail.documents) - 1.0) < 1e-5
        assert abs(sum(detail.documents[2:]) - detail.cloud) < 1e-5
        assert len(detail.top) == TOP


def test_a_token_the_cloud_has_passed_over_is_told_without_it(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.")
    table.details.take(table.own, 25)
    table.hear(2)
    assert table.positions == [0, 1, 2]
    assert [detail.cloud == 0.0 for detail in table.told] == [True, True, False]
    assert [detail.tv is None for detail in table.told] == [True, True, False]
    assert [len(detail.documents) for detail in table.told] == [4, 4, 4]


def test_what_was_written_alone_waits_for_nobody(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.", joint={0, 1})
    table.details.take(table.own, 25)
    table.hear(1)
    assert table.details.complete
    full = table.own[4].own.full
    assert full is not None
    expected = logprobs.alone(full, table.own[4].token, TOP)
    found = table.told[4]
    assert (found.logprob, found.top, found.cloud) == (expected.logprob, expected.top, 0.0)


def test_a_lost_cloud_leaves_the_device_to_tell(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.")
    table.details.take(table.own[:4], 16)
    table.hear(0)
    table.details.lose()
    assert table.positions == [0, 1, 2, 3]
    table.details.receive(table.said[2])  # too late
    assert table.positions == [0, 1, 2, 3]
    assert table.told[0].tv is not None


def test_frames_of_another_text_are_not_taken(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key")
    table.details.take(table.own, 7)
    other = Settled(0, 5, 9, table.own[0].own, table.own[0].remote)
    table.details.receive(cloud_detail(other, TOP))
    table.details.receive(Values(0, 100, (-1.0,)))  # nothing was asked
    assert table.told == []


def test_a_cloud_that_does_not_know_any_more(tokenizer: Tokenizer) -> None:
    flat = FullDistribution.of(torch.zeros(1, tokenizer.vocab_size), torch.ones(1).double())
    same = DetailedSide(cut(flat.mixed.exp().numpy()).wire, 0, flat)
    own = Settled(0, 5, 1, same, same)
    table = Table(tokenizer, "x")
    table.details.take([own], 1)
    table.details.receive(cloud_detail(own, TOP))
    assert table.details.take_questions()
    table.details.receive(Values(0, 1, ()))
    assert table.told[0].cloud == 0.0


def test_text_that_a_stop_string_may_cut_is_held_back(tokenizer: Tokenizer) -> None:
    table = Table(tokenizer, "The key is under the mat.", joint=set())
    table.details.take(table.own, 9)  # "The key i", the rest may begin a stop string
    assert "".join(detail.text for detail in table.told) == "The key"
    table.details.end(9, stopped=True)
    assert table.details.complete
    assert table.told[-1].text == " is"
    assert (table.told[-1].start, table.told[-1].end) == (7, 9)


def test_the_token_that_ends_the_answer_has_no_room_in_it(tokenizer: Tokenizer) -> None:
    end = min(tokenizer.end_ids)
    table = Table(tokenizer, "The key", joint=set())
    last = Settled(len(table.own), end, 7, table.own[0].own, None)
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
