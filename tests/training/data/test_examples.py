"""What training sees: every kind of example, packed, and the stages that mix them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.training.conftest import PARAGRAPHS
from training.data import copying
from training.data.batches import to_batch
from training.data.examples import DECLINE, KINDS, Example, ExampleSource, Role
from training.data.packing import ROW, encode, pack
from training.data.prose import ProseSource
from training.data.sources import open_facts
from training.stages import read_stages, stage_at


@pytest.fixture(scope="module")
def source(prose: ProseSource) -> ExampleSource:
    return ExampleSource(open_facts("train", prose), prose)


def answers(example: Example) -> list[str]:
    roles = (Role.ANSWER, Role.QUOTE)
    return [part.text for branch in example.branches for part in branch if part.role in roles]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_predicted(kind: str, source: ExampleSource, tokenizer: Tokenizer) -> None:
    rng = random.Random(3)
    pieces = [encode(source.draw(rng, {kind: 1.0}), tokenizer, rng, ROW) for _ in range(20)]
    encoded = [piece for piece in pieces if piece is not None]
    assert len(encoded) >= 18
    for piece in encoded:
        assert len(piece.tokens) <= ROW
        assert max(piece.weights) > 0


@pytest.mark.parametrize("kind", ["sentence", "quote", "copy"])
def test_a_single_sentence_is_quoted_word_for_word(kind: str, source: ExampleSource) -> None:
    rng = random.Random(5)
    for _ in range(50):
        example = source.draw(rng, {kind: 1.0})
        document = example.root[0].text.removeprefix("<|doc|>")
        assert all(answer == f"{document}<|end|>" for answer in answers(example))


@pytest.mark.parametrize("kind", ["bare", "instruction"])
def test_what_no_document_answers_is_never_quoted(kind: str, source: ExampleSource) -> None:
    rng = random.Random(7)
    replies = {text for _ in range(60) for text in answers(source.draw(rng, {kind: 1.0}))}
    assert f"{DECLINE}<|end|>" in replies
    assert not any(paragraph[:30] in reply for reply in replies for paragraph in PARAGRAPHS)


def test_rare_strings_stand_in_their_sentence() -> None:
    rng = random.Random(11)
    for _ in range(200):
        text, rare = copying.with_rare_strings("Nobody asked the ferryman, who slept.", rng)
        assert all(string in text for string in rare)


def test_packed_examples_do_not_see_each_other(source: ExampleSource, tokenizer: Tokenizer) -> None:
    rng = random.Random(13)
    mixture = read_stages()[-1].mixture
    drawn = (encode(source.draw(rng, mixture), tokenizer, rng, ROW) for _ in range(30))
    grid, weights, _ = pack([piece for piece in drawn if piece is not None], 2)
    batch = to_batch(grid, weights)
    roots, branches = grid[3], grid[4]
    for row in range(2):
        for query in range(0, ROW, 7):
            for key in batch.allowed[row, 0, query].nonzero().flatten().tolist():
                assert key <= query
                assert roots[row, key] == roots[row, query]
                assert branches[row, key] in (0, branches[row, query])


def test_stages_follow_each_other() -> None:
    stages = read_stages()
    assert stage_at(stages, 0) is stages[0]
    assert stage_at(stages, stages[0].until) is stages[1]
    assert stage_at(stages, 10**9) is stages[-1]
    assert all(stage.mixture["language"] > 0 for stage in stages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[stage]]\nname = "a"\nuntil = 5\nmixture = { poems = 1 }', "unknown kinds"),
        ('[[stage]]\nname = "a"\nuntil = 5\nmixture = {}\n' * 2, "must end after"),
    ],
)
def test_a_wrong_stage_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "stages.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_stages(tmp_path / "stages.toml")


def test_the_last_stage_declines_no_question_on_its_document(source: ExampleSource) -> None:
    """With a document only requests and noise are declined: the kind ``instruction``."""
    rng, mixture = random.Random(5), dict(read_stages()[-1].mixture)
    assert mixture.pop("instruction") > 0
    declined = 0
    for example in (source.draw(rng, mixture) for _ in range(600)):
        texts = [part.text for branch in example.branches for part in branch]
        said = any(DECLINE in text for text in texts)
        assert not (said and example.root)
        declined += said
    assert declined > 30
