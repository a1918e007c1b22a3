"""REST and the page build their requests in one place, each with its own defaults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.api.openai.parameters import requests_of
from app.api.openai.schemas import ChatBody, CompletionBody
from app.api.page.parameters import Params, request_of
from app.container import AppState
from app.generation.events import Details, GenerationRequest
from dragon.errors import InvalidRequestError
from dragon.inference.choice import DefaultSampling
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Mode
from tests.fakes import FakeGeneration

PROMPT = GenerationRequest((1, 2), "Where is it?")
OWN = {"top_k": 3, "private": True, "documents": ["a"], "collections": ["b"]}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}], "seed": 7}


def same(one: GenerationRequest, other: GenerationRequest) -> bool:
    return replace(one, id="") == replace(other, id="")


def rest(state: AppState, **more: object) -> GenerationRequest:
    body = ChatBody.model_validate({**CHAT, "max_tokens": 9} | more)
    (request,) = requests_of(body, [PROMPT], state)
    return request


def test_the_same_parameters_make_the_same_request(state: AppState) -> None:
    params = {"seed": 7, "temperature": 0.5, "max_tokens": 9, "mode": "exchange", **OWN}
    page = request_of(state, PROMPT, Params.model_validate(params | {"provenance": True}))
    dragon = OWN | {"aggregation": "exchange", "provenance": True}
    assert same(page, rest(state, temperature=0.5, dragon=dragon))
    assert (page.mode, page.details) == (Mode.EXCHANGE, Details())


def test_what_a_request_gives_goes_before_what_is_usual(
    state: AppState, generation: FakeGeneration
) -> None:
    given = {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.2,
        "presence_penalty": 0.5, "frequency_penalty": -1,
    }  # fmt: skip
    asked = rest(state, **given).sampling
    assert {name: getattr(asked, name) for name in given} == given
    biased = rest(state, logit_bias={"17": -100, "4": 5}).sampling
    assert biased.logit_bias == ((17, -100.0), (4, 5.0))
    generation.default_sampling = DefaultSampling(0.7, top_p=0.8, top_k=20, repetition_penalty=1.1)
    asked = rest(state, temperature=0.5, top_k=-1).sampling
    assert (asked.temperature, asked.top_p, asked.top_k) == (0.5, 0.8, 0)
    assert (asked.repetition_penalty, rest(state).sampling.temperature) == (1.1, 0.7)


@pytest.mark.parametrize(("usual", "taken"), [(None, 1.0), (0.0, 0.0), (0.7, 1.0)])
def test_algorithm_1_takes_no_more_than_it_knows(
    state: AppState, generation: FakeGeneration, usual: float | None, taken: float
) -> None:
    generation.default_sampling = DefaultSampling(usual, top_p=0.8, top_k=20)
    asked = rest(state, dragon={"aggregation": "speculative"}).sampling
    assert (asked.temperature, asked.top_p, asked.top_k) == (taken, 1.0, 0)


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"dragon": {"wait": True, "private": True}}, "dragon.wait"),
        ({"dragon": {"private": True, "cloud": "always"}}, "dragon.cloud"),
        ({"dragon": {"epsilon": 1.0}, "temperature": 0}, "temperature"),
        ({"dragon": {"epsilon": 1.0}, "seed": 7}, "seed"),
        ({"dragon": {"epsilon": 1.0}, "logprobs": True}, "logprobs"),
        ({"dragon": {"epsilon": 1.0, "aggregation": "coupled"}}, "dragon.aggregation"),
    ],
)
def test_what_contradicts_is_refused(state: AppState, asked: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        rest(state, **{"seed": None} | asked)
    assert refused.value.param == param


def test_a_bound_needs_chance(state: AppState) -> None:
    body = {**CHAT, "seed": None, "dragon": {"epsilon": 4.0}}
    assert rest(state, **body).sampling.temperature == 1.0


def test_the_least_length(state: AppState, generation: FakeGeneration) -> None:
    for given, param in (({"min_tokens": 3}, "min_tokens"), ({"ignore_eos": True}, "ignore_eos")):
        with pytest.raises(InvalidRequestError, match="quotes whole sentences") as refused:
            rest(state, **given)
        assert refused.value.param == param
    generation.quotes_alone = False
    assert rest(state, min_tokens=3).sampling.min_tokens == 3
    assert rest(state, min_tokens=3, ignore_eos=True).sampling.min_tokens > 9
    assert rest(state, ignore_eos=False).sampling.min_tokens == 0


def test_a_prompt_is_cut_to_its_last_tokens(state: AppState, tokenizer: Tokenizer) -> None:
    before = len(tokenizer.bare_row())
    shown = tuple(range(50))
    prompt = GenerationRequest(tuple(range(100)), "Where is it?", cloud_conversation=shown)

    def cut(tokens: int, limit: int) -> GenerationRequest:
        body = ChatBody.model_validate(
            CHAT | {"truncate_prompt_tokens": tokens, "max_tokens": limit}
        )
        (request,) = requests_of(body, [prompt], state)
        return request

    assert cut(before + 3, 9).conversation == (97, 98, 99)
    assert cut(before + 3, 9).cloud_conversation == (47, 48, 49)
    assert cut(before + 3, 9).prompt_tokens(tokenizer) == before + 3
    assert len(cut(-1, 200).conversation) == 56  # of a context of 256
    with pytest.raises(InvalidRequestError, match="tokens stand before every prompt"):
        cut(before, 9) if before else cut(-1, 256)


@pytest.mark.parametrize(("mode", "usual"), [("coupled", 0.15), ("speculative", 0.0)])
def test_defaults(state: AppState, mode: str, usual: float) -> None:
    assert request_of(state, PROMPT, Params(mode=Mode(mode))).sampling.temperature == usual
    assert rest(state).mode is state.settings.aggregation
    drawn = [request_of(state, PROMPT, Params()), rest(state, seed=None), rest(state, seed=None)]
    seeds = {each.sampling.seed for each in drawn}
    assert len(seeds) == 3
    assert max(seeds) < 1 << 53


def test_each_choice_has_a_stream_and_one_scores_the_prompt(state: AppState) -> None:
    body = CompletionBody(model="m", prompt="x", n=2, echo=True, logprobs=1, seed=7)
    requests = requests_of(body, [PROMPT] * 2, state)
    assert [request.sampling.stream for request in requests] == [0, 1, 2, 3]
    scored = [request.details is not None and request.details.prompt for request in requests]
    assert scored == [True, False, True, False]
    assert len({request.id for request in requests}) == 4
