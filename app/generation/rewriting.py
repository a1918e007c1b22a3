"""Has the model itself rewrite a chat's question to stand alone, for retrieval.

"And when?" finds nothing; "When will the plumber fix the tap?" does. The model sees only the turns
that it is given here: no passage, and for the cloud's question only what the cloud knows of the
conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from app.generation.cloud_view import MARK
from app.generation.events import GenerationRequest
from dragon.errors import DragonError
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.run import written
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.link.control import MAX_QUERY
from dragon.models.instructions import ALONE, transcript
from dragon.retrieval.query_parsing import asks_nothing

log = logging.getLogger(__name__)

TOKENS = 48
"""The most tokens of a question; one that has not ended by then is not used."""

_TURNS, _CHARACTERS = 6, 600  # of the conversation: the last turns, and the beginning of each
_TASK = (
    "Write the user's last question so that it can be understood without this conversation: name "
    "what its words refer to. Write nothing but the question."
)


def task(messages: Sequence[Message], *, taught: bool) -> str:
    """The model's task; "" if no turn comes before a question, or if it asks nothing.

    A model `taught` to do this has its instruction before the task.
    """
    turns = [m for m in messages if m.role != "system" and m.content.strip() not in ("", MARK)]
    if len(turns) < 2:
        return ""
    last = turns[-1].content
    if asks_nothing(last) and "?" not in last:  # thanks, but not "And when?"
        return ""
    told = [(m.role, m.content.strip()[:_CHARACTERS]) for m in turns[-_TURNS:]]
    return transcript(told) if taught else "\n".join([transcript(told), "", _TASK])


@dataclass(frozen=True)
class Rewriter:
    """Has the engine write questions, greedily, alongside other answers."""

    engine: Engine
    tokenizer: Tokenizer
    taught: bool

    async def alone(self, request: GenerationRequest) -> GenerationRequest:
        """The request with its question rewritten; unchanged if that fails or is not needed."""
        if (query := await self._rewritten(request.messages)) is None:
            return request
        known = request.cloud_messages == request.messages
        asked = query if known else request.asked
        return replace(request, query=query, cloud_query=asked)

    async def alone_for_cloud(self, request: GenerationRequest) -> GenerationRequest:
        """The request with the cloud's question rewritten, too, if the cloud knows less."""
        if request.cloud_messages == request.messages:
            return request
        query = await self._rewritten(request.cloud_messages)
        return replace(request, cloud_query=query or request.cloud_query)

    async def _rewritten(self, messages: Sequence[Message]) -> str | None:
        """The first line that the model writes; None if it fails or does not end in time."""
        if not (asked := task(messages, taught=self.taught)):
            return None
        tokens: list[int] = []
        row = Row(tuple(self.tokenizer.document_row(ALONE)), 0.0) if self.taught else None
        try:
            async with aclosing(
                written(self.engine, self.tokenizer, asked, TOKENS, row)
            ) as writing:
                async for token in writing:
                    tokens.append(token)
                    line, ended, _ = self.tokenizer.decode(tokens).lstrip().partition("\n")
                    if ended or token in self.tokenizer.end_ids:
                        return line.strip()[:MAX_QUERY] or None
        except DragonError as error:
            log.warning("searching with the original question: %s", error)
        return None
