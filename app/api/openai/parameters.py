"""What a request's body asks for, as generations."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from app.api.openai.schemas import MAX_CHOICES, MAX_HOPS, DragonOptions, GenerationBody
from app.container import AppState
from app.generation.events import Details, GenerationRequest
from app.generation.prompts import Prompt
from dragon.errors import InvalidRequestError
from dragon.sampling.params import Sampling


def new_seed() -> int:
    """A seed for a request that gives none: below 2^53, so that any JSON reader can repeat it."""
    return secrets.randbits(53)


def plan(
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

    Of `best_of` choices only the likeliest are answered with.
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
    hops = MAX_HOPS if options.hops is None else options.hops
    bias = tuple((int(token), value) for token, value in (body.logit_bias or {}).items())
    vocabulary = state.generation.tokenizer.vocab_size
    if any(token >= vocabulary for token, _ in bias):
        raise InvalidRequestError(
            f"logit_bias: the vocabulary has {vocabulary} tokens", param="logit_bias"
        )
    seed = new_seed() if body.seed is None else body.seed
    return [
        GenerationRequest(
            conversation=prompt.tokens,
            query=prompt.query,
            sampling=Sampling(
                temperature=1.0 if body.temperature is None else body.temperature,
                top_p=1.0 if body.top_p is None else body.top_p,
                seed=seed,
                stream=number * choices + choice,
                logit_bias=bias,
                presence_penalty=body.presence_penalty or 0.0,
                frequency_penalty=body.frequency_penalty or 0.0,
            ),
            max_tokens=limit,
            stop=tuple(body.stop),
            mode=options.aggregation or state.settings.aggregation,
            schedule=options.schedule,
            catch_up=options.catch_up,
            top_k=options.top_k,
            private=options.private,
            raw=raw,
            # A prompt is scored once, with its first choice.
            details=details if choice == 0 or details is None else replace(details, prompt=False),
            documents=options.documents,
            collections=options.collections,
            hops=0 if raw else hops,
        )
        for number, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
