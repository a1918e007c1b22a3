"""What REST's bodies and the page's parameters have in common when they become requests."""

from __future__ import annotations

import secrets
from typing import Protocol

from app.generation.events import GenerationRequest
from app.generation.prompts import Prompt
from app.settings import Cloud, Settings
from dragon.errors import InvalidRequestError
from dragon.sampling.params import Sampling


class AnswerOptions(Protocol):
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


def request_for(
    prompt: Prompt, sampling: Sampling, options: AnswerOptions, settings: Settings
) -> GenerationRequest:
    """The request for an answer to a prompt, with the options that say what it may use.

    Raises `InvalidRequestError` for options that contradict each other.
    """
    if options.private and options.cloud not in (None, Cloud.NEVER):
        raise InvalidRequestError(
            f"private: true keeps the answer on the device, cloud: {options.cloud} does not; "
            "leave one of them out",
            param="dragon.cloud",
        )
    return GenerationRequest(
        conversation=prompt.tokens,
        cloud_conversation=prompt.shown,
        query=prompt.query,
        messages=prompt.messages,
        cloud_messages=prompt.known,
        parts=prompt.parts,
        begins=prompt.begins,
        sampling=sampling,
        top_k=options.top_k,
        cloud=Cloud.NEVER if options.private else options.cloud or settings.cloud,
        documents=options.documents,
        collections=options.collections,
    )
