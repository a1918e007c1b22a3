"""`POST /tokenize` and `POST /detokenize`, in vLLM's shapes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.openai.field_types import wrong
from app.api.openai.models import UnknownModelError
from app.api.openai.openapi import failures
from app.api.openai.parameters import offered, rendering_of
from app.api.openai.schemas import MAX_TEXT, DetokenizeBody, RenderedBody, TokenizeBody
from app.api.openai.turns import ChatMessage, as_messages
from app.container import AppState, State
from app.generation.prompts import known
from dragon.errors import InvalidRequestError
from dragon.inference.tokenizer import Tokenizer

router = APIRouter(tags=["tokens"], responses=failures(404))


class Tokenized(BaseModel):
    """The ids of a text. `max_model_len`: the model's context, including the answer."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class Detokenized(BaseModel):
    """The text of ids."""

    prompt: str


@router.post("/tokenize")
async def tokenize(body: TokenizeBody, state: State) -> Tokenized:
    """The ids of a prompt or a chat for the model."""
    tokenizer, length = _of_model(body.model, state)
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequestError("Send either prompt or messages.", param="prompt")
    if body.messages is not None:
        if tokenizer is not state.generation.tokenizer:
            raise wrong("messages", "this model does not chat")
        tokens = await chat_ids(body, body.messages, tokenizer)
    else:
        tokens = await asyncio.to_thread(tokenizer.read, body.prompt or "")
        if body.add_special_tokens is not False:
            tokens = tokenizer.framed(tokens)
    names = [tokenizer.name(token) for token in tokens] if body.return_token_strs else None
    return Tokenized(count=len(tokens), max_model_len=length, tokens=tokens, token_strs=names)


@router.post("/detokenize")
async def detokenize(body: DetokenizeBody, state: State) -> Detokenized:
    """The text of ids, with special tokens spelt out."""
    tokenizer, _ = _of_model(body.model, state)
    name = body.model or state.generation.model_name
    tokens = known(body.tokens, tokenizer, name, "tokens")
    return Detokenized(prompt=await asyncio.to_thread(tokenizer.decode, tokens, special=True))


async def chat_ids(
    body: RenderedBody, turns: Sequence[ChatMessage], tokenizer: Tokenizer
) -> list[int]:
    """The ids of a chat, including those that begin every chat.

    Raises `InvalidRequestError` for one that would take long to tokenize.
    """
    messages = as_messages(turns)
    if sum(len(message.content) for message in messages) > MAX_TEXT:
        raise wrong("messages", f"at most {MAX_TEXT} characters in total")
    tools, _ = offered(body, tokenizer, messages)
    rendering = rendering_of(body, messages, tools, tokenizer)
    chat = await asyncio.to_thread(tokenizer.chat, messages, rendering)
    return [*tokenizer.bare_row(begins=chat.begins), *chat.tokens]


def _of_model(model: str | None, state: AppState) -> tuple[Tokenizer, int]:
    """Tokenizer and context length of a model, by default the one that writes."""
    served = {part.model_name: part for part in (state.embeddings, state.generation)}
    if model is not None and model not in served:
        raise UnknownModelError(model, state.generation.model_name)
    part = served[model or state.generation.model_name]
    return part.tokenizer, part.context_length
