"""The part of a request that the cloud gets, and the only part that a joint answer is written from.

If the device conditioned on more, a peer's words ("Earlier you said: ") could make it send the rest
up as corrections. So a joint run is made from this alone, and only this module makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.generation.events import GenerationRequest
from app.ledger.leakage import Part, PartKind


@dataclass(frozen=True)
class Given:
    """A request whose conversation, messages and question are the cloud's; `whole` is the device's.

    Only `Given.of` makes one.
    """

    request: GenerationRequest
    whole: GenerationRequest

    @classmethod
    def of(cls, whole: GenerationRequest) -> Given:
        """The cloud's part of a request; all of it if nothing is hidden."""
        if not hides(whole):
            return cls(whole, whole)
        return cls(
            replace(
                whole,
                conversation=whole.shown,
                cloud_conversation=None,
                messages=whole.cloud_messages,
                query=whole.asked,
            ),
            whole,
        )

    def parts(self, decode: Callable[[Sequence[int]], str]) -> Iterator[Part]:
        """The parts of the user's words in it, by kind."""
        request = self.request
        yield from request.parts
        if request.raw:
            yield Part(PartKind.PROMPT, decode(request.conversation))
        elif request.asked not in (part.text for part in request.parts):
            yield Part(PartKind.SEARCH, request.asked)
        if request.sampling.grammar:
            yield Part(PartKind.FORMAT, request.sampling.grammar)
        if biased := request.sampling.logit_bias:
            yield Part(PartKind.WORDS, decode([token for token, _ in biased]))


def hides(request: GenerationRequest) -> bool:
    """Whether the cloud is given less than the whole conversation."""
    return request.shown != request.conversation
