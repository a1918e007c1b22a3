"""What the model can do for a request: the modes it supports, and the text it has room for."""

from __future__ import annotations

from app.generation.events import GenerationRequest
from app.generation.retrieval import Retrieval
from dragon.errors import ContextLengthError, InvalidRequestError
from dragon.inference.backends.backend import WHOLE_ANSWERS, require_full
from dragon.localizable import localizable
from dragon.sampling.params import Mode


def room(retrieval: Retrieval, request: GenerationRequest) -> int:
    """How many tokens its conversation may have, besides the answer and what precedes it."""
    before = len(retrieval.without(request).tokens)
    return retrieval.engine.model.context - before - request.least


def check(retrieval: Retrieval, request: GenerationRequest) -> None:
    """Raises `InvalidRequestError` for what the model cannot do.

    Raises `ContextLengthError` unless prompt and answer fit the context together.
    """
    model = retrieval.engine.model
    if request.mode is Mode.SEQUENCEWISE:
        require_full(model, *WHOLE_ANSWERS)
    if request.details is not None and request.details.prompt:
        require_full(model, "echo with logprobs", "leave out one of them")
    if request.mode is Mode.CONTEXT_KV and model.kv is None:
        raise InvalidRequestError(
            f"{model.name} cannot load keys and values from a peer: use context_text",
            param="dragon.aggregation",
        )
    if len(request.conversation) > room(retrieval, request):
        prompt = len(retrieval.without(request).tokens) + len(request.conversation)
        raise ContextLengthError(
            localizable(
                "context.answer",
                "This model's maximum context length is {context} tokens; however, you "
                "requested {total} tokens ({prompt} in your prompt, {answer} for the "
                "completion). Please shorten the prompt or lower max_tokens.",
                context=model.context,
                total=prompt + request.least,
                prompt=prompt,
                answer=request.least,
            ),
            param="prompt" if request.raw else "messages",
        )
