"""A conversation of 24,000 tokens beside short ones, and answers that wait for room.

Covers `dragon.inference.engine` with torch and llama.cpp.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from dragon.errors import ContextLengthError, PreemptedError
from dragon.inference import scoring
from dragon.inference.backends.llama_cpp.model import LlamaCpp
from dragon.inference.backends.slots import BLOCK, MAX_CONTEXT
from dragon.inference.backends.torch import model as torch_model
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side
from harness import gguf_file
from tests import tiny

WAIT_S = 300
LONG, SHORT, SHORT_ONES = 24_000, 30, 40
ROW = [Row((5, 6, 7), 0.0)]


def tokens(count: int, seed: int = 0) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(10, tiny.VOCABULARY) for _ in range(count)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("long"), context=MAX_CONTEXT, layers=1)


@pytest.fixture(params=["torch", "llama.cpp"])
def engine(directory: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "llama.cpp":
        path = tmp_path / "long.gguf"
        gguf_file.write(directory, path)
        running = Engine(LlamaCpp(path, tiny.VOCABULARY, threads=1))
    else:
        running = Engine(LanguageModel.load(directory, tiny.VOCABULARY))
    yield running
    running.stop()


def run(engine: Engine, decoder: Decoder, work: Work) -> list[Side]:
    return scoring.run(engine, decoder, work).result(WAIT_S)


def test_a_long_conversation_and_short_ones_all_end(engine: Engine) -> None:
    cache = engine.model.cache
    begun: list[str] = []
    longest = engine.open(ROW, tokens(LONG), limit=20)
    longest.prefilled.add_done_callback(lambda _: begun.append("long"))
    for seed in range(SHORT_ONES):
        short = engine.open(ROW, tokens(SHORT, seed), limit=20)
        short.prefilled.add_done_callback(lambda _: begun.append("short"))
        short.prefilled.result(WAIT_S)
        assert run(engine, short, Work(0, (9, 10), 2, 0))
        engine.close(short)
    longest.prefilled.result(WAIT_S)
    assert begun.index("long") > 10, "they went on between its pieces"
    tiny.freed(engine)
    free = cache.blocks - -(-(len(ROW[0].tokens) + LONG + 21) // BLOCK)
    assert cache.fits(1, free * BLOCK)
    assert not cache.fits(1, free * BLOCK + 1)
    assert run(engine, longest, Work(0, (9, 10), 2, 0))
    engine.close(longest)
    tiny.freed(engine)
    assert cache.fits(1, cache.blocks * BLOCK)
    assert cache.free == cache.slots


def test_what_can_never_fit_is_refused(engine: Engine) -> None:
    rows = ROW * (engine.model.cache.rows(LONG + 24) + 1)
    with pytest.raises(ContextLengthError, match=r"room for \d+ of them: shorten the conv"):
        engine.open(rows, tokens(LONG), limit=20)


@pytest.fixture
def small(directory: Path) -> Iterator[Engine]:
    """An engine with room for two answers of full length."""
    with patch.object(torch_model, "_CACHE_BYTES", 0):
        model = LanguageModel.load(directory, tiny.VOCABULARY)
    running = Engine(model)
    yield running
    running.stop()


def test_an_answer_waits_for_room(small: Engine) -> None:
    half = MAX_CONTEXT // 2
    first, second, third = (small.open(ROW, tokens(9), limit=half + 99) for _ in range(3))
    fourth = small.open(ROW, tokens(9))
    for decoder in (first, second, third):
        decoder.prefilled.result(WAIT_S)
    tiny.freed(small)
    assert small.free_slots > 200
    assert not fourth.prefilled.done()
    assert run(small, first, Work(0, (9,), 1, 0)), "others go on"
    small.close(first)
    tiny.freed(small)
    assert not fourth.prefilled.done()
    small.close(second)
    fourth.prefilled.result(WAIT_S)


def test_one_that_is_closed_between_two_pieces_gives_its_room_back(small: Engine) -> None:
    cache = small.model.cache
    longest = small.open(ROW, tokens(LONG), limit=20)
    other = small.open(ROW, tokens(SHORT), limit=20)
    other.prefilled.result(WAIT_S)
    small.close(longest)
    with pytest.raises(PreemptedError):
        longest.prefilled.result(WAIT_S)
    tiny.freed(small)
    assert cache.free == cache.slots - 1
    assert run(small, other, Work(0, (9,), 1, 0))
