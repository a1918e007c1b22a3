"""From the body of a REST request to the requests of its generations."""

from __future__ import annotations

from collections.abc import Sequence

from app.api.openai.schemas import (
    MAX_CHOICES,
    ChatBody,
    CompletionBody,
    DragonOptions,
    GenerationBody,
    as_messages,
)
from app.api.parameters import MAX_HOPS, generation_requests, seed_or_new
from app.container import AppState
from app.generation.events import Details, GenerationRequest
from app.generation.prompts import Prompt, chat_prompt, text_prompt
from app.settings import Cloud
from dragon.errors import InvalidRequestError
from dragon.sampling.params import Mode, Sampling


async def chat_requests(body: ChatBody, state: AppState) -> list[GenerationRequest]:
    """A generation for each choice of a chat, whose cloud sees of it what it may see."""
    messages = as_messages(body.messages)
    asked = body.dragon.cloud if body.dragon else None
    trusted = (asked or state.settings.cloud) is Cloud.ALWAYS
    shown = await state.generation.cloud_view.of(messages, trusted=trusted)
    prompt = await chat_prompt(state.generation, messages, shown)
    limit = body.max_completion_tokens or body.max_tokens
    return requests_of(body, [prompt], limit, state, raw=False, details=body.details)


async def completion_requests(body: CompletionBody, state: AppState) -> list[GenerationRequest]:
    """A generation for each choice of each prompt of a completion."""
    prompts = [await text_prompt(state.generation, prompt) for prompt in body.prompt]
    limit, best_of = body.max_tokens, body.best_of
    return requests_of(body, prompts, limit, state, raw=True, details=body.details, best_of=best_of)


def requests_of(
    body: GenerationBody,
    prompts: Sequence[Prompt],
    limit: int | None,
    state: AppState,
    *,
    raw: bool,
    details: Details | None,
    best_of: int | None = None,
) -> list[GenerationRequest]:
    """A generation for each choice of each prompt, the choices of a prompt together.

    Of `best_of` choices only the likeliest are answered with. Raises `InvalidRequestError`.
    """
    options = body.dragon or DragonOptions()
    choices = best_of or body.n or 1
    if choices * len(prompts) > MAX_CHOICES:
        raise InvalidRequestError(
            f"n: {choices} choices of {len(prompts)} prompts are more than {MAX_CHOICES} answers",
            param="n",
        )
    if raw and options.hops:
        raise InvalidRequestError("dragon.hops: only for chats", param="dragon.hops")
    bias = tuple((int(token), value) for token, value in (body.logit_bias or {}).items())
    vocabulary = state.generation.tokenizer.vocab_size
    if any(token >= vocabulary for token, _ in bias):
        raise InvalidRequestError(
            f"logit_bias: the vocabulary has {vocabulary} tokens", param="logit_bias"
        )
    if options.epsilon is not None:
        _check_bounded(body, options, details, options.aggregation or state.settings.aggregation)
    sampling = Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=seed_or_new(body.seed),
        logit_bias=bias,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
    )
    return generation_requests(
        prompts,
        sampling,
        options,
        state.settings,
        options.aggregation or state.settings.aggregation,
        max_tokens=limit,
        stop=body.stop,
        raw=raw,
        details=details,
        most_hops=0 if raw else MAX_HOPS,
        choices=choices,
        epsilon=options.epsilon,
    )


def _check_bounded(
    body: GenerationBody, options: DragonOptions, details: Details | None, mode: Mode
) -> None:
    """Raises `InvalidRequestError` for what an answer with a budget cannot have."""
    for refused, param, why in (
        (mode is not Mode.ONEWAY, "dragon.aggregation", "only `oneway` sends no distribution"),
        (body.temperature == 0.0, "temperature", "a bound needs chance: leave it out"),
        (body.seed is not None, "seed", "its noise is never repeated: leave it out"),
        (bool(options.hops), "dragon.hops", "they send what passages say: leave it out"),
        (details is not None, "logprobs", "they, provenance and best_of are not for such answers"),
    ):
        if refused:
            raise InvalidRequestError(f"{param}: with dragon.epsilon, {why}", param=param)
