"""What is told of an answer: its citations, its tokens, and when they were made.

Covers `app.generation.events`.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.generation import answer
from app.generation.answer import AnswerDetails, Citations, Trace
from app.generation.events import Citation, GenerationRequest, Source, TokenDetail
from dragon.inference import distribution
from dragon.inference.distribution import DetailedSide, FullDistribution
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.state import Settled
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import cut
from dragon.sampling.role import Role

TOP = 3
# The device has found two passages, the cloud three of the five that it may use.
SOURCES = [
    Source("private" if number < 6 else "public", f"d{number}", "t", "x", 0.9, 0.5, citation=number)
    for number in (1, 2, 6, 7, 8)
]


def cited(text: str, pieces: list[str], sources: list[Source] = SOURCES) -> list[tuple[str, int]]:
    """The numbers cited, as they stand in the text, and the indices of their sources."""
    reader = Citations()
    found: list[Citation] = []
    for piece in pieces:
        found += reader.read(piece, sources)
    return [(text[each.start : each.end], each.source) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is under the pot [1].", [("1", 0)]),
        ("[2] says so [6][7].", [("2", 1), ("6", 2), ("7", 3)]),
        ("Both [1, 8] and [ 2 ].", [("1", 0), ("8", 4), ("2", 1)]),
        ("No such passages: [3] [5] [9] [60] [0].", []),
        ("Half of them: [1, 3].", [("1", 0)]),
        ("Not cited: [a], [1.5], [x1], [1, (1), [], [1234], 1.", []),
        ("[[2]] and [1][", [("2", 1), ("1", 0)]),
    ],
)
def test_numbers_in_brackets_are_those_of_sources(
    text: str, expected: list[tuple[str, int]]
) -> None:
    assert cited(text, [text]) == expected
    assert cited(text, list(text)) == expected


@given(st.text("[]12 ,6a", max_size=30), st.data())
def test_pieces_say_what_the_whole_says(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert cited(text, pieces) == cited(text, [text])


def test_sources_that_are_not_cited_have_no_numbers() -> None:
    quoted = [Source("private", "d", "t", "x", 0.9, 1.0)]
    assert cited("See [1].", ["See [1]."], quoted) == []


def test_the_clouds_passages_count_once_they_are_there() -> None:
    reader = Citations()
    assert reader.read("As in [6], ", SOURCES[:2]) == []
    assert reader.read("or in [6].", SOURCES) == [Citation(18, 19, 2)]


def test_when_drafts_were_made_and_tokens_became_text() -> None:
    noted = Trace()
    noted.draft(Role.DEVICE, 0, 5000)
    noted.draft(Role.CLOUD, 0, 5000, underway=0.1)
    noted.text(0, 2)
    (_, _, begun, sent), (_, _, cloud_begun, cloud_done), *text = noted.entries
    assert [entry[0] for entry in noted.entries] == ["d", "c", "t", "t"]
    assert [entry[1] for entry in text] == [0, 1]
    assert sent - begun == 5.0
    assert cloud_done - cloud_begun == 5.0
    assert cloud_done <= sent - 90


def test_it_is_bounded() -> None:
    noted = Trace()
    noted.text(0, 10 * answer._MOST)
    assert len(noted.entries) == answer._MOST


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


def test_the_clients_chat_counts_where_the_clouds_part_is_written_from(
    tokenizer: Tokenizer,
) -> None:
    asked = GenerationRequest((20, 21, 22, 23), "And then?", cloud_conversation=(22,))
    given = asked.given()
    assert given.conversation == (22,)
    assert given.prompt_tokens(tokenizer) == asked.prompt_tokens(tokenizer)
    assert given.given() is given


def test_a_joint_answer_follows_no_turn_that_the_cloud_was_not_given() -> None:
    """Also where the question stands alone, so that both sides have the same tokens."""
    private, asked = Message("user", "Who is my doctor?"), Message("user", "And in March?")
    whole = GenerationRequest(
        (20,), "And in March?", messages=(private, asked), cloud_messages=(asked,)
    )
    assert whole.hides
    assert whole.given().messages == (asked,)
    assert not whole.given().hides
