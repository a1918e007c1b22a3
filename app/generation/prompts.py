"""Turns what a client wrote into the request that a generation starts from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from app.generation.cloud_view import View
from app.generation.events import GenerationRequest, question_of
from app.generation.service import GenerationService
from app.ledger.leakage import Part, PartKind
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.chat_template import Rendering
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.localizable import localizable

MAX_CUT = 300_000
"""The most characters of a prompt that is cut to fit."""


async def chat_prompt(
    generation: GenerationService,
    messages: Sequence[Message],
    view: View,
    rendering: Rendering | None = None,
    *,
    to_cut: bool = False,
) -> GenerationRequest:
    """The conversation under the model's template; the last user message is the query.

    The cloud is shown its `view` of it. If `to_cut`, the conversation may be too long.

    Raises `InvalidRequestError` without a user message, `ContextLengthError` if too long.
    """
    query = question_of(messages)
    if not query.strip():
        raise InvalidRequestError(
            "messages: at least one user message with a text is needed", param="messages"
        )
    length = sum(len(message.content) for message in messages)
    _require_short(length, generation, "messages", to_cut=to_cut)
    rendering = rendering or Rendering()
    # Long prompts take long to tokenize; other requests continue meanwhile.
    chat = await asyncio.to_thread(generation.tokenizer.chat, messages, rendering)
    if not to_cut:
        _require_room(len(chat.tokens), generation, "messages")
    own, shown = tuple(messages), None
    if view.messages != own:
        given = await asyncio.to_thread(generation.tokenizer.chat, view.messages, rendering)
        # Marks may be longer than what they replace.
        shown = tuple(given.tokens[-generation.context_length :])
    # What else a template is given; switches add no words.
    told = [Part(PartKind.TOOLS, _json(tool.described())) for tool in rendering.tools]
    variables = {k: v for k, v in rendering.variables.items() if not isinstance(v, bool)}
    if variables:
        told.append(Part(PartKind.INSTRUCTIONS, _json(variables)))
    return GenerationRequest(
        tuple(chat.tokens),
        query,
        begins=chat.begins,
        cloud_conversation=shown,
        messages=own,
        cloud_messages=view.messages,
        parts=(*view.parts, *told),
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


async def shortened(
    generation: GenerationService, messages: Sequence[Message], rendering: Rendering, answer: int
) -> list[Message]:
    """The messages without the oldest turns, if these leave no room for the answer.

    Instructions stay, and so does everything from the last question on, even if that is too long.
    """
    first = next((n for n, each in enumerate(messages) if each.role != "system"), 0)
    own, turns = list(messages[:first]), list(messages[first:])
    # A conversation begins with a question, as templates require.
    starts = [n for n, each in enumerate(turns) if each.role == "user"] or [0]
    room = generation.context_length - answer

    def fits(start: int) -> bool:
        kept = [*own, *turns[start:]]
        characters = sum(len(message.content) for message in kept)
        if generation.tokenizer.least_tokens(characters) > room:
            return False
        chat = generation.tokenizer.chat(kept, rendering)
        return len(generation.tokenizer.bare_row(begins=chat.begins)) + len(chat.tokens) <= room

    if await asyncio.to_thread(fits, 0):
        return list(messages)
    # A step at a time: a client that leaves ends the search.
    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        if await asyncio.to_thread(fits, starts[middle]):
            high = middle
        else:
            low = middle + 1
    return [*own, *turns[starts[low] :]]


async def text_prompt(
    generation: GenerationService,
    prompt: str | Sequence[int],
    suffix: str = "",
    *,
    to_cut: bool = False,
) -> GenerationRequest:
    """A prompt, text or token ids, with or without the tokens that begin every text.

    Special tokens are recognised by name. With a `suffix`, the model writes the text between the
    two. A prompt that is `to_cut` may be too long.

    Raises `InvalidRequestError` for an empty prompt, an unknown token, or a suffix if the model
    cannot fill in text; `ContextLengthError` if too long.
    """
    tokenizer = generation.tokenizer
    _require_short(len(suffix), generation, "suffix")
    if isinstance(prompt, str):
        _require_short(len(prompt), generation, "prompt", to_cut=to_cut)
        tokens, query = await asyncio.to_thread(tokenizer.read, prompt), prompt
    else:
        tokens = known(prompt, tokenizer, generation.model_name, "prompt")
        query = ""
    # They are added when the prompt is run, and must not occur twice.
    start = tokenizer.bare_row(raw=True)
    if start and tokens[: len(start)] == start:
        tokens = tokens[len(start) :]
    query = query or await asyncio.to_thread(tokenizer.decode, tokens) or suffix
    if suffix:
        tokens = await asyncio.to_thread(tokenizer.around, tokens, suffix)
    if not tokens:
        raise InvalidRequestError("prompt: must not be empty", param="prompt")
    if not to_cut:
        _require_room(len(tokens), generation, "prompt")
    return GenerationRequest(tuple(tokens), query)


def _require_short(
    characters: int, generation: GenerationService, param: str, *, to_cut: bool = False
) -> None:
    """Raises `ContextLengthError` for a text that is too long however it is tokenized.

    Tokenizing it could take a minute and a gigabyte.
    """
    if not to_cut:
        least = generation.tokenizer.least_tokens(characters)
        _require_room(least, generation, param, at_least=True)
    elif characters > MAX_CUT:
        raise ContextLengthError(
            f"{param}: at most {MAX_CUT} characters can be cut to their last tokens", param=param
        )


def _require_room(
    count: int, generation: GenerationService, param: str, *, at_least: bool = False
) -> None:
    """Raises `ContextLengthError` unless so many tokens leave room for an answer."""
    if count < generation.context_length:
        return
    tokens = localizable("context.least", "at least {count}", count=count) if at_least else count
    raise ContextLengthError(
        localizable(
            "context.prompt",
            "This model's maximum context length is {context} tokens, the answer included; "
            "however, your {param} resulted in {tokens} tokens. Please shorten it.",
            context=generation.context_length,
            param=param,
            tokens=tokens,
        ),
        param=param,
    )


def known(ids: Sequence[int], tokenizer: Tokenizer, model: str, param: str) -> list[int]:
    """The ids; raises `InvalidRequestError` if one is not in the model's vocabulary."""
    if ids and max(ids) >= tokenizer.vocab_size:
        raise InvalidRequestError(
            f"{param}: {max(ids)} is out of vocabulary: {model} has {tokenizer.vocab_size} tokens. "
            "These are another tokenizer's ids; send the text, or ids of /tokenize",
            param=param,
        )
    return list(ids)
