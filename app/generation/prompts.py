"""From what a client wrote to the tokens a generation starts from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.api.openai.token_ids import known
from app.container import Generation
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.tokenizer import Message


@dataclass(frozen=True)
class Prompt:
    """Token ids, and the text that documents are searched with."""

    tokens: tuple[int, ...]
    query: str


async def chat_prompt(generation: Generation, messages: Sequence[Message]) -> Prompt:
    """The conversation under the model's template; the last user message is the query.

    Raises `InvalidRequestError` without a user message, `ContextLengthError` when too long.
    """
    query = next((m.content for m in reversed(messages) if m.role == "user"), "")
    if not query.strip():
        raise InvalidRequestError(
            "messages: at least one user message with a text is needed", param="messages"
        )
    # Long prompts take long to tokenize; other requests go on meanwhile.
    tokens = await asyncio.to_thread(generation.tokenizer.conversation, messages)
    return Prompt(_fitting(tokens, generation, "messages"), query)


async def text_prompt(generation: Generation, prompt: str | Sequence[int]) -> Prompt:
    """A prompt as it stands, text or token ids, with the tokens before every text or without.

    Raises `InvalidRequestError` for an empty prompt or an unknown token, `ContextLengthError`
    when too long.
    """
    tokenizer = generation.tokenizer
    if isinstance(prompt, str):
        tokens, query = await asyncio.to_thread(tokenizer.encode, prompt), prompt
    else:
        tokens = known(prompt, tokenizer, "prompt")
        # They are added where the prompt is run, and must not stand there twice.
        start = tokenizer.bare_row(raw=True)
        if start and tokens[: len(start)] == start:
            tokens = tokens[len(start) :]
        query = await asyncio.to_thread(tokenizer.decode, tokens)
    if not tokens:
        raise InvalidRequestError("prompt: must not be empty", param="prompt")
    return Prompt(_fitting(tokens, generation, "prompt"), query)


def _fitting(tokens: Sequence[int], generation: Generation, param: str) -> tuple[int, ...]:
    if len(tokens) >= generation.context_length:
        raise ContextLengthError(
            f"This model's maximum context length is {generation.context_length} tokens, the "
            f"answer included; however, your {param} resulted in {len(tokens)} tokens. Please "
            "shorten it.",
            param=param,
        )
    return tuple(tokens)
