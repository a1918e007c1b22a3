"""What a model refuses before anything is searched or written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from app.generation.events import Details, GenerationRequest
from app.generation.limits import check, room
from app.generation.retrieval import Retrieval
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.rows import Row
from dragon.sampling.params import Mode, Sampling

CONTEXT, BEFORE = 100, 6
ASKED = GenerationRequest(conversation=(1,) * 60, query="", sampling=Sampling(), max_tokens=34)


def retrieval(*, full: bool = True) -> Retrieval:
    """Of a model of 100 tokens, whose prompts begin with 6."""
    model = SimpleNamespace(name="model", context=CONTEXT, full=full, kv=None)
    row = Row((0,) * BEFORE, relevance=0)
    found = SimpleNamespace(engine=SimpleNamespace(model=model), without=lambda request: row)
    return cast(Retrieval, found)


def test_a_prompt_that_fits_to_the_last_token() -> None:
    assert room(retrieval(), ASKED) == 60
    check(retrieval(), ASKED)
    with pytest.raises(ContextLengthError) as caught:
        check(retrieval(), replace(ASKED, max_tokens=35))
    message = "maximum context length is 100 tokens; however, you requested 101 tokens (66 in your"
    assert message in caught.value.message
    assert caught.value.param == "messages"


def test_without_max_tokens_there_is_room_for_one() -> None:
    check(retrieval(), replace(ASKED, conversation=(1,) * 93, max_tokens=None))
    with pytest.raises(ContextLengthError) as caught:
        check(retrieval(), replace(ASKED, conversation=(1,) * 94, max_tokens=None, raw=True))
    assert caught.value.param == "prompt"


def test_what_needs_every_probability_names_what_does_not() -> None:
    scored = replace(ASKED, details=Details(prompt=True))
    whole = replace(ASKED, mode=Mode.SEQUENCEWISE)
    check(retrieval(), scored)
    check(retrieval(), whole)
    with pytest.raises(InvalidRequestError, match="leave out one of them, or use a model that"):
        check(retrieval(full=False), scored)
    with pytest.raises(InvalidRequestError, match="use aggregation oneway, coupled or local, or"):
        check(retrieval(full=False), whole)


def test_keys_and_values_need_a_model_that_takes_them() -> None:
    with pytest.raises(InvalidRequestError, match="use context_text"):
        check(retrieval(), replace(ASKED, mode=Mode.CONTEXT_KV))
