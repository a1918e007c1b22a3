"""REST and the page build their requests in one place, each with its own defaults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.api.openai.parameters import requests_of
from app.api.openai.schemas import ChatBody, CompletionBody
from app.api.page.parameters import Params, request_of
from app.container import AppState
from app.generation.events import Details, GenerationRequest
from app.generation.prompts import Prompt
from dragon.sampling.params import Mode

PROMPT = Prompt((1, 2), "Where is it?")
OWN = {"top_k": 3, "private": True, "documents": ["a"], "collections": ["b"]}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}], "seed": 7}


def same(one: GenerationRequest, other: GenerationRequest) -> bool:
    return replace(one, id="") == replace(other, id="")


def rest(state: AppState, **more: object) -> GenerationRequest:
    body = ChatBody.model_validate(CHAT | more)
    (request,) = requests_of(body, [PROMPT], 9, state, raw=False, details=body.details)
    return request


def test_the_same_parameters_make_the_same_request(state: AppState) -> None:
    params = {"seed": 7, "temperature": 0.5, "max_tokens": 9, "mode": "exchange", **OWN}
    page = request_of(state, PROMPT, Params.model_validate(params | {"provenance": True}))
    dragon = OWN | {"aggregation": "exchange", "provenance": True}
    assert same(page, rest(state, temperature=0.5, dragon=dragon))
    assert (page.mode, page.details, page.hops) == (Mode.EXCHANGE, Details(), 1)


@pytest.mark.parametrize(("mode", "usual"), [("coupled", 0.15), ("speculative", 0.0)])
def test_defaults(state: AppState, mode: str, usual: float) -> None:
    assert rest(state).sampling.temperature == 1.0
    assert request_of(state, PROMPT, Params(mode=Mode(mode))).sampling.temperature == usual
    assert rest(state).mode is state.settings.aggregation
    seeds = {request_of(state, PROMPT, Params()).sampling.seed for _ in range(3)}
    assert len(seeds) == 3
    assert max(seeds) < 1 << 53


def test_each_choice_has_a_stream_and_one_scores_the_prompt(state: AppState) -> None:
    body = CompletionBody(model="m", prompt="x", n=2, echo=True, logprobs=1, seed=7)
    requests = requests_of(body, [PROMPT] * 2, 4, state, raw=True, details=body.details)
    assert [request.sampling.stream for request in requests] == [0, 1, 2, 3]
    scored = [request.details is not None and request.details.prompt for request in requests]
    assert scored == [True, False, True, False]
    assert {request.hops for request in requests} == {0}
    assert len({request.id for request in requests}) == 4
