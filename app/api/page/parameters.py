"""Turns the page's parameters into a request to the generation service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from app.api.openai.field_types import Limit, Seed, Temperature
from app.api.openai.parameters import request_for, seed_or_new
from app.api.openai.schemas import AnswerOptions
from app.container import AppState
from app.generation.cloud_view import NOTHING
from app.generation.events import Details, GenerationRequest
from app.generation.prompts import chat_prompt, shortened
from app.storage.tables import MessageState, StoredMessage
from dragon.inference import tokenizer
from dragon.inference.chat_template import Rendering
from dragon.sampling.params import Mode, Sampling

# For a page that sends none: people who chat want the likely word. If two sources disagree inside a
# word, the embedded model garbles one answer in ten at 0.3.
DEFAULT_TEMPERATURE = 0.15


class Params(AnswerOptions):
    """How to answer; omitted fields take the settings' defaults."""

    temperature: Temperature | None = None
    max_tokens: Limit | None = None
    seed: Seed | None = None
    mode: Annotated[Mode | None, Field(strict=False)] = None


def request_of(state: AppState, prompt: GenerationRequest, params: Params) -> GenerationRequest:
    """The request for one answer to a prompt."""
    mode = params.mode or state.settings.aggregation
    # Algorithm 1 is only defined for temperatures 0 and 1.
    usual = DEFAULT_TEMPERATURE if mode.takes_any_sampling else 0.0
    sampling = Sampling(
        temperature=usual if params.temperature is None else params.temperature,
        seed=seed_or_new(params.seed),
    )
    return replace(
        request_for(prompt, sampling, params, state.settings),
        mode=mode,
        max_tokens=params.max_tokens,
        details=Details() if params.provenance else None,
    )


async def branch_request(
    state: AppState,
    path: Sequence[StoredMessage],
    begun: str,
    params: Params,
    project: str | None = None,
) -> tuple[GenerationRequest, int]:
    """The request for the answer at the end of a branch, and how many turns it leaves out.

    `begun` is the text it already has. In a project, the project's instruction comes first, for a
    model that can follow one, and its documents are searched, unless others are chosen. The oldest
    turns are left out if the branch would take more than half of the model's context. Raises
    `InvalidRequestError` for what the model cannot do, `ContextLengthError` if the last question
    alone does not fit.
    """
    begins = []
    if project is not None:
        if params.documents is None and params.collections is None:
            held = {name for name, _ in await state.documents.collections()}
            chosen = {"collections": (project,)} if project in held else {"documents": ()}
            params = params.model_copy(update=chosen)
        instruction = await state.conversations.projects.instruction(project)
        if instruction and not state.generation.quotes:
            begins = [tokenizer.Message("system", instruction)]
    generation = state.generation
    question = tokenizer.Message("user", path[-2].text)
    whole = [*begins, *_turns(path[:-2], private=params.private), question]
    room = generation.context_length // 2
    messages = await shortened(generation, whole, Rendering(), generation.context_length - room)
    view = await generation.cloud_view.of(messages, trusted=False)
    prompt = await chat_prompt(generation, messages, view)
    if begun:
        encode = generation.tokenizer.encode
        known = await generation.cloud_view.known(question.content, begun) or NOTHING
        prompt = replace(
            prompt,
            conversation=(*prompt.conversation, *encode(begun)),
            cloud_conversation=(*prompt.shown, *encode(known.of(begun))),
        )
    request = request_of(state, prompt, params)
    generation.check(request)
    return request, (len(whole) - len(messages)) // 2


def _turns(path: Sequence[StoredMessage], *, private: bool) -> list[tokenizer.Message]:
    """Earlier turns; private ones only for a private question, or they would reach the cloud."""
    return [
        message
        for question, answer in zip(path[::2], path[1::2], strict=True)
        if answer.state != MessageState.ERROR
        and answer.text.strip()
        and (private or not (question.private or answer.private))
        for message in (
            tokenizer.Message("user", question.text),
            tokenizer.Message("assistant", answer.text),
        )
    ]
