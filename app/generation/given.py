"""What the cloud is given of a request, and so all that an answer may be written from beside it.

A device that went on from more could be led by the words of a peer ("Earlier you said: ") into
sending it up, as corrections. So what a joint run is made of is this, and it is made here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.generation.events import GenerationRequest
from app.ledger.leakage import Kind, Part


@dataclass(frozen=True)
class Given:
    """A request whose conversation, messages and question are the cloud's; `whole` is the device's.

    Only `Given.of` makes one.
    """

    request: GenerationRequest
    whole: GenerationRequest

    @classmethod
    def of(cls, whole: GenerationRequest) -> Given:
        """What the cloud is given of a request; of one that hides nothing, all of it."""
        if not hides(whole):
            return cls(whole, whole)
        return cls(
            replace(
                whole,
                conversation=whole.shown,
                cloud_conversation=None,
                messages=whole.cloud_messages,
                query=whole.asked,
                query_alone=None,
            ),
            whole,
        )

    def parts(self, decode: Callable[[Sequence[int]], str]) -> Iterator[Part]:
        """What that holds of the person's words, by kind."""
        request = self.request
        yield from request.parts
        if request.raw:
            yield Part(Kind.PROMPT, decode(request.conversation))
        elif request.asked not in (part.text for part in request.parts):
            yield Part(Kind.SEARCH, request.asked)
        if request.sampling.grammar:
            yield Part(Kind.FORMAT, request.sampling.grammar)
        if biased := request.sampling.logit_bias:
            yield Part(Kind.WORDS, decode([token for token, _ in biased]))


def hides(request: GenerationRequest) -> bool:
    """Whether the cloud is given less of the conversation than there is."""
    return request.shown != request.conversation
