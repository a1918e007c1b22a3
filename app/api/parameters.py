"""The one builder of generation requests: for REST's bodies and for the page's parameters."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from app.generation.events import Details, GenerationRequest
from app.generation.prompts import Prompt
from dragon.sampling.params import Mode, Sampling

MAX_HOPS = 1


class Options(Protocol):
    """What REST's `dragon` object and the page's parameters both say."""

    @property
    def top_k(self) -> int | None: ...

    @property
    def private(self) -> bool: ...

    @property
    def documents(self) -> tuple[str, ...] | None: ...

    @property
    def collections(self) -> tuple[str, ...] | None: ...


def seed_or_new(seed: int | None) -> int:
    """The seed, or a new one below 2^53, so that any JSON reader can repeat it."""
    return secrets.randbits(53) if seed is None else seed


def generation_requests(
    prompts: Sequence[Prompt],
    sampling: Sampling,
    options: Options,
    mode: Mode,
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    raw: bool = False,
    details: Details | None = None,
    hops: int = MAX_HOPS,
    choices: int = 1,
) -> list[GenerationRequest]:
    """A request for each choice of each prompt, the choices of a prompt together.

    Each has a random stream of its own under the one seed.
    """
    return [
        GenerationRequest(
            conversation=prompt.tokens,
            query=prompt.query,
            sampling=replace(sampling, stream=number * choices + choice),
            max_tokens=max_tokens,
            stop=tuple(stop),
            mode=mode,
            top_k=options.top_k,
            private=options.private,
            raw=raw,
            # A prompt is scored once, with its first choice.
            details=details if choice == 0 or details is None else replace(details, prompt=False),
            documents=options.documents,
            collections=options.collections,
            hops=hops,
        )
        for number, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
