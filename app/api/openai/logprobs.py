"""Log-probabilities as OpenAI's clients read them: a list for chat, parallel lists for prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from app.generation.events import Detailed, TextDelta, TokenDetail
from dragon.inference.distribution import MAX_TOP
from dragon.inference.tokenizer import Tokenizer


class TopLogprob(BaseModel):
    """One of the likeliest tokens; its `bytes` need not be whole characters."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token of the answer, and the likeliest tokens at its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Log-probabilities of a chat message, or of a piece of one."""

    content: list[TokenLogprob]
    refusal: None = None


class PromptLogprob(BaseModel):
    """A token at a place of the prompt; its `rank` is known if it is one of the likeliest."""

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]
"""As in vLLM: for each token of the prompt, its own and the likeliest ones at its place, by id.

None for a token that begins every prompt or has nothing before it.
"""


class TextLogprobs(BaseModel):
    """Log-probabilities of a completion, or a piece of one. A prompt's first token has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


def chat_logprobs(
    details: Sequence[TokenDetail],
    tokenizer: Tokenizer,
    *,
    most: int = MAX_TOP,
    by_id: bool = False,
) -> ChatLogprobs:
    """Log-probabilities of a message's tokens, without the one that ends it.

    Tokens are named by text or, if `by_id`, by id; each has at most `most` alternatives.
    """

    def top(token: int, logprob: float) -> TopLogprob:
        piece = tokenizer.piece(token)
        name = _id(token) if by_id else _name(piece)
        return TopLogprob(token=name, logprob=logprob, bytes=list(piece))

    return ChatLogprobs(
        content=[
            TokenLogprob(
                **top(detail.token, detail.logprob or 0.0).model_dump(),
                top_logprobs=[top(*each) for each in detail.top[:most]],
            )
            for detail in details
            if detail.token not in tokenizer.end_ids
        ]
    )


def text_logprobs(
    details: Sequence[TokenDetail],
    tokenizer: Tokenizer,
    *,
    most: int = MAX_TOP,
    by_id: bool = False,
) -> TextLogprobs:
    """Log-probabilities of tokens, with offsets in the reply's text; otherwise as in chats."""

    def name(token: int) -> str:
        return _id(token) if by_id else _name(tokenizer.piece(token))

    def top(detail: TokenDetail) -> dict[str, float] | None:
        if detail.logprob is None:
            return None
        # The token itself is always among them, as in OpenAI's reference.
        own = (detail.token, detail.logprob)
        return {name(token): logprob for token, logprob in (*detail.top[:most], own)}

    return TextLogprobs(
        tokens=[name(detail.token) for detail in details],
        token_logprobs=[detail.logprob for detail in details],
        top_logprobs=[top(detail) for detail in details],
        text_offset=[detail.start for detail in details],
    )


def prompt_logprobs(
    details: Sequence[TokenDetail], tokenizer: Tokenizer, most: int
) -> PromptLogprobs:
    """Log-probabilities of a prompt's tokens, with at most `most` alternatives each."""

    def scored(token: int, logprob: float, rank: int | None) -> PromptLogprob:
        name = tokenizer.decode([token], special=True)
        return PromptLogprob(logprob=logprob, rank=rank, decoded_token=name)

    def at(detail: TokenDetail) -> dict[str, PromptLogprob] | None:
        if detail.logprob is None:
            return None
        best = {str(t): scored(t, p, rank) for rank, (t, p) in enumerate(detail.top[:most], 1)}
        return {str(detail.token): scored(detail.token, detail.logprob, None)} | best

    return [at(detail) for detail in details]


class Pairing:
    """Pairs an answer's text with the log-probabilities of its tokens, which come separately."""

    def __init__(self) -> None:
        self._waiting: deque[TextDelta] = deque()
        self._details: deque[TokenDetail] = deque()

    def take(self, event: TextDelta | Detailed) -> Iterator[tuple[TextDelta, list[TokenDetail]]]:
        """The pieces that an event completes, in order."""
        if isinstance(event, TextDelta):
            self._waiting.append(event)
        else:
            self._details.extend(event.details)
        while self._waiting and len(self._waiting[0].tokens) <= len(self._details):
            piece = self._waiting.popleft()
            yield piece, [self._details.popleft() for _ in piece.tokens]

    def rest(self) -> Iterator[tuple[TextDelta, list[TokenDetail]]]:
        """The pieces still waiting, if their tokens have no log-probabilities."""
        while self._waiting:
            piece = self._waiting.popleft()
            kept = min(len(piece.tokens), len(self._details))
            yield piece, [self._details.popleft() for _ in range(kept)]


def _id(token: int) -> str:
    return f"token_id:{token}"


def _name(piece: bytes) -> str:
    """A token's text, or its bytes if those are not whole characters."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
