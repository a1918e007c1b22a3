"""The one builder of generation requests: for REST's bodies and for the page's parameters."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from app.generation.events import Details, GenerationRequest
from app.generation.prompts import Prompt
from app.settings import Cloud, Settings
from dragon.errors import InvalidRequestError
from dragon.sampling.params import Mode, Sampling


class Options(Protocol):
    """What REST's `dragon` object and the page's parameters have in common."""

    @property
    def top_k(self) -> int | None: ...

    @property
    def private(self) -> bool: ...

    @property
    def cloud(self) -> Cloud | None: ...

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
    settings: Settings,
    mode: Mode,
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    stop_tokens: Sequence[int] = (),
    with_stop: bool = False,
    special: bool = False,
    raw: bool = False,
    details: Details | None = None,
    choices: int = 1,
    epsilon: float | None = None,
    wait: bool = False,
) -> list[GenerationRequest]:
    """A request for each choice of each prompt, the choices of a prompt adjacent.

    Each has its own random stream under the one seed. Raises `InvalidRequestError` for options that
    contradict each other.
    """
    if options.private and options.cloud not in (None, Cloud.NEVER):
        raise InvalidRequestError(
            f"private: true keeps the answer on the device, cloud: {options.cloud} does not; "
            "leave one of them out",
            param="dragon.cloud",
        )
    cloud = Cloud.NEVER if options.private else options.cloud or settings.cloud
    if wait and cloud is Cloud.NEVER:
        raise InvalidRequestError(
            "dragon.wait: the cloud is never asked; leave it out", param="dragon.wait"
        )
    return [
        GenerationRequest(
            conversation=prompt.tokens,
            cloud_conversation=prompt.shown,
            query=prompt.query,
            messages=prompt.messages,
            cloud_messages=prompt.known,
            parts=prompt.parts,
            sampling=replace(sampling, stream=number * choices + choice),
            max_tokens=max_tokens,
            stop=tuple(stop),
            stop_tokens=frozenset(stop_tokens),
            with_stop=with_stop,
            special=special,
            mode=mode,
            top_k=options.top_k,
            cloud=cloud,
            raw=raw,
            begins=prompt.begins,
            # A prompt is scored once, with its first choice.
            details=details if choice == 0 or details is None else replace(details, prompt=False),
            documents=options.documents,
            collections=options.collections,
            epsilon=epsilon,
            wait=wait,
        )
        for number, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
