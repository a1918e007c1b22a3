"""Log-probabilities as OpenAI's clients read them: a list for chat, parallel lists for prompts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from app.generation.events import TokenDetail
from dragon.inference.tokenizer import Tokenizer


class TopLogprob(BaseModel):
    """One of the likeliest tokens; `bytes` of its own, which need not be whole characters."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token of the answer, and the likeliest in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Of a chat message, or a piece of one."""

    content: list[TokenLogprob]
    refusal: None = None


class TextLogprobs(BaseModel):
    """Of a completion, or a piece of one. The first token of a prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


def chat_logprobs(details: Sequence[TokenDetail], tokenizer: Tokenizer) -> ChatLogprobs:
    """Of tokens that are part of the message: the one that ends it is not."""

    def top(token: int, logprob: float) -> TopLogprob:
        piece = tokenizer.piece(token)
        return TopLogprob(token=_name(piece), logprob=logprob, bytes=list(piece))

    return ChatLogprobs(
        content=[
            TokenLogprob(
                **top(detail.token, detail.logprob or 0.0).model_dump(),
                top_logprobs=[top(*each) for each in detail.top],
            )
            for detail in details
            if detail.token not in tokenizer.end_ids
        ]
    )


def text_logprobs(details: Sequence[TokenDetail], tokenizer: Tokenizer) -> TextLogprobs:
    """Of tokens that say where they stand in the reply's text."""

    def top(detail: TokenDetail) -> dict[str, float] | None:
        if detail.logprob is None:
            return None
        # The token itself is always among them, as OpenAI's reference has it.
        return {
            _name(tokenizer.piece(token)): logprob
            for token, logprob in (*detail.top, (detail.token, detail.logprob))
        }

    return TextLogprobs(
        tokens=[_name(tokenizer.piece(detail.token)) for detail in details],
        token_logprobs=[detail.logprob for detail in details],
        top_logprobs=[top(detail) for detail in details],
        text_offset=[detail.start for detail in details],
    )


def _name(piece: bytes) -> str:
    """A token as text, or by its bytes where those are not whole characters."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
