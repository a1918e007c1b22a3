"""Decides who answers a request, the device alone or with the cloud, and from which conversation.

All of this happens on the device, before anything may leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.generation.events import Event, GenerationRequest, NotAsked, PeerChanged
from app.generation.everyday import Everyday, holds_a_chat
from app.generation.plan import Retrieved
from app.generation.retrieval import Retrieval
from app.generation.rewriting import Rewriter
from app.ledger.leakage import Part, PartKind
from app.ledger.writer import Ledger
from app.peer_link.client import Link
from app.settings import Cloud
from dragon.inference.rows import Begins
from dragon.inference.tokenizer import Message
from dragon.link import control
from dragon.retrieval.prompt_rows import Answers


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

    async def decide(self, asked: GenerationRequest) -> Decision:
        """Leave the cloud out if no document is needed, or if the user's own documents answer.

        They are searched twice: for the question in the whole chat, and for the cloud's version.
        """
        # The link limits the query: both sides search with the same text if they can.
        end = slice(-control.MAX_QUERY, None)
        request = replace(asked, query=asked.query[end], cloud_query=asked.asked[end])
        if_needed = request.cloud is Cloud.WHEN_NEEDED
        # It is unknown which parts of a chat in one text are private: only `ALWAYS` lets it leave.
        told = [message.content for message in asked.messages if message.role == "system"]
        if if_needed and any(map(holds_a_chat, [asked.query] if asked.raw else told)):
            return Decision(request.without_cloud(), events=(NotAsked(),))

        style, most = self.retrieval.form(request)
        searched = bool(style.one_row and request.query and most)
        alone = await self.rewriter.alone(request) if searched else request
        if await self.everyday.needless(alone):
            row = await self.everyday.row(request, examples=style is Answers.LINES)
            return Decision(request.without_cloud(), row, (NotAsked(),))
        quotes_line = style is Answers.LINES and not request.scores_prompt
        if quotes_line and searched:
            alone = self._question_alone(alone)
        if not alone.joint:
            return Decision(alone)
        if not self.ledger.writable:
            reason = "nothing may leave, since the ledger cannot be written"
            return Decision(alone.without_cloud(), events=(PeerChanged(False, 0, reason),))
        return await self._decide_jointly(alone, rewritten=style.one_row, quotes_line=quotes_line)

    async def _decide_jointly(
        self, local: GenerationRequest, *, rewritten: bool, quotes_line: bool
    ) -> Decision:
        """Decide about a request that the cloud may take part in.

        `local` is for this device: what it hides may not leave. The cloud's question is still to be
        `rewritten` from its view of the chat. If a line is quoted, the chat is that question alone.
        """
        if_needed = local.cloud is Cloud.WHEN_NEEDED
        found = await self.retrieval.find(local) if if_needed else None
        if found is not None and found.premise and not local.hides:
            return Decision(replace(local, premise=found.premise), found.begun())
        if found is not None and found.answers and local.judged:
            return Decision(local.without_cloud(), found, (NotAsked(),))

        for_both = await self.rewriter.alone_for_cloud(local) if rewritten else local
        if quotes_line:
            for_both = self._question_alone(for_both)
        if not for_both.hides:
            return Decision(for_both, found)
        if not self.link.connected:
            # Without a peer to write with, the whole conversation may be used.
            away = PeerChanged(False, 0, self.link.status.away)
            return Decision(for_both.without_cloud(), found, (away,))
        if not (if_needed and for_both.judged):
            return Decision(for_both)
        # The documents may answer the cloud's version, though not the whole chat's.
        may_leave = for_both.given()
        found = await self.retrieval.find(may_leave)
        if found.answers:
            return Decision(may_leave.without_cloud(), found, (NotAsked(),))
        return Decision(for_both, found)

    def _question_alone(self, request: GenerationRequest) -> GenerationRequest:
        """The request whose chat is its question alone, of which a line is quoted."""
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
