"""What REST's bodies and the page's parameters have in common when they become requests."""

from __future__ import annotations

import secrets
from typing import Annotated

from pydantic import Field

from app.api.openai.field_types import Names, Strict
from app.generation.events import GenerationRequest
from app.generation.prompts import Prompt
from app.settings import Cloud, Settings
from dragon.errors import InvalidRequestError
from dragon.sampling.params import Sampling


class AnswerOptions(Strict):
    """What REST's `dragon` object and the page's parameters have in common.

    `documents` (ids) and `collections` (names) limit which of the user's documents may be used.
    `cloud` says when the cloud is asked to take part; `private` is short for never.
    """

    top_k: Annotated[int, Field(ge=0, le=32)] | None = None
    private: bool = False
    cloud: Annotated[Cloud | None, Field(strict=False)] = None
    documents: Names | None = None
    collections: Names | None = None
    provenance: bool = False


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
