"""Decides who answers a request, the device alone or with the cloud, and from which conversation.

All of this happens on the device, before anything may leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.generation.events import Event, GenerationRequest, NotAsked, PeerChanged
from app.generation.everyday import Everyday
from app.generation.given import Given, hides
from app.generation.plan import Retrieved
from app.generation.retrieval import Retrieval
from app.generation.rewriting import Rewriter
from app.generation.transcripts import holds_a_chat
from app.ledger.leakage import Part, PartKind
from app.ledger.writer import Ledger
from app.peer_link.client import Link
from app.settings import Cloud
from dragon.inference.rows import Begins
from dragon.inference.tokenizer import Message
from dragon.link import control


@dataclass(frozen=True)
class Decision:
    """The request to answer, which is private if the cloud is left out.

    `found` is what was already retrieved, if anything; `events` say why the cloud is left out.
    """

    request: GenerationRequest
    found: Retrieved | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Decider:
    """Decides by the user's documents, and by a model that makes questions stand alone."""

    retrieval: Retrieval
    everyday: Everyday
    rewriter: Rewriter
    link: Link
    ledger: Ledger

    async def decide(self, request: GenerationRequest) -> Decision:
        """Leave the cloud out if no document is needed, or if the user's own documents answer.

        They are searched twice: for the question in the whole chat, and for the cloud's version.
        """
        # It is unknown which parts of a chat in one text are private: only `ALWAYS` lets it leave.
        told = [message.content for message in request.messages if message.role == "system"]
        holds = any(map(holds_a_chat, [request.query] if request.raw else told))
        # The link limits the query: both sides search with the same text if they can.
        most = control.MAX_QUERY
        request = replace(request, query=request.query[-most:], cloud_query=request.asked[-most:])
        if holds and request.cloud is Cloud.WHEN_NEEDED:
            return Decision(_without_cloud(request), events=(NotAsked(),))
        rewritten = self.retrieval.in_one_row(request)
        searched = rewritten and self.retrieval.asks(request)
        alone = await self.rewriter.alone(request) if searched else request
        if await self.everyday.needless(alone):
            examples = self.retrieval.quotes_a_line(request)
            row = await self.everyday.row(request, examples=examples)
            return Decision(_without_cloud(request), row, (NotAsked(),))
        if searched:
            request = self._written_from(alone)
        if not request.joint:
            return Decision(request)
        if not self.ledger.writable:
            reason = "nothing may leave, since the ledger cannot be written"
            return Decision(_without_cloud(request), events=(PeerChanged(False, 0, reason),))
        found: Retrieved | None = None
        if request.cloud is Cloud.WHEN_NEEDED:
            found = await self.retrieval.find(request, request.limit)
            if found.premise and not hides(request):
                return Decision(replace(request, premise=found.premise), found.begun())
            if request.judged and found.answers:
                return Decision(_without_cloud(request), found, (NotAsked(),))
        if rewritten:
            request = self._written_from(await self.rewriter.alone_for_cloud(request))
        if not hides(request):
            return Decision(request, found)
        if not self.link.connected:
            # Without a peer to write with, the whole conversation may be used.
            away = PeerChanged(False, 0, self.link.status.away)
            return Decision(_without_cloud(request), found, (away,))
        if request.cloud is Cloud.WHEN_NEEDED and request.judged:
            # The documents may answer the cloud's version, though not the whole chat's.
            given = Given.of(request).request
            found = await self.retrieval.find(given, request.limit)
            if found.answers:
                return Decision(_without_cloud(given), found, (NotAsked(),))
            return Decision(request, found)
        return Decision(request)

    def _written_from(self, request: GenerationRequest) -> GenerationRequest:
        """The chat to write the answer from: the question alone, if a line is quoted."""
        scored = request.details is not None and request.details.prompt  # as it was sent
        if scored or not self.retrieval.quotes_a_line(request):
            return request
        own, known = (
            tuple(self.retrieval.tokenizer.conversation([Message("user", question)]))
            for question in (request.query, request.asked)
        )
        return replace(
            request,
            conversation=own,
            begins=Begins.TURNS,
            cloud_conversation=None if known == own else known,
            parts=tuple(
                part for part in request.parts if part == Part(PartKind.QUESTION, request.asked)
            ),
            prompt=request.prompt or (request.begins, request.conversation),
        )


def _without_cloud(request: GenerationRequest) -> GenerationRequest:
    return replace(request, cloud=Cloud.NEVER)
