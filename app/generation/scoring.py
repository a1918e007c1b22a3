"""Scoring given tokens: a prompt, or a finished answer.

With the peer, the full mixture scores all of the text or none of it: if the peer is lost meanwhile,
the device's own distributions are used at every position, so that the scores of one text are
comparable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.generation.answer import Answer, TokenTexts, cut_off, described, public_source
from app.generation.events import (
    Detailed,
    GenerationRequest,
    PromptDetailed,
    Source,
    SourcesFound,
    TokenDetail,
)
from app.generation.plan import Plan, Retrieved, scoring_request
from app.peer_link.client import Link
from app.peer_link.status import Refusal
from dragon.errors import FrameError, LinkError
from dragon.inference import scoring
from dragon.inference.adjustment import Adjustment
from dragon.inference.decoder import Decoder, Decoding
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.scoring import CloudScore, Scored
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.link import control
from dragon.link.bodies import Bulk
from dragon.link.registry import Message

log = logging.getLogger(__name__)

# The peer may have to wait for slots, but not forever.
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ScoredText:
    """The scored tokens of a text in order, and the cloud's documents, if it took part."""

    tokens: Sequence[Scored]
    sources: Sequence[Source]


@dataclass
class Scorer:
    """Scores texts with the device's engine and, if there is a link, with the peer.

    Each token comes with its `top` likeliest alternatives.
    """

    engine: Engine
    tokenizer: Tokenizer
    link: Link | None
    top: int

    async def prompt(
        self, request: GenerationRequest, plan: Plan, retrieved: Retrieved
    ) -> tuple[SourcesFound, PromptDetailed]:
        """Score the prompt except its first token, which has no context."""
        own = retrieved.found()
        texts = TokenTexts(self.tokenizer)
        first, *rest = [texts.next(token) for token in request.conversation]
        if not rest:
            return own, PromptDetailed((first,))
        # The cloud may not see a text that is hidden from it, and its own has other tokens.
        link = None if request.hides else self.link
        before, text = request.conversation[:1], request.conversation[1:]
        asked = scoring_request(replace(request, cloud_conversation=None), plan, before, text)
        scored = await replace(self, link=link).score(request.id, asked, retrieved.rows, None)
        sources = (*own.sources, *scored.sources)
        details = _described(rest, scored, len(own.sources))
        return replace(own, sources=sources), PromptDetailed((first, *details))

    async def answer(
        self, request: GenerationRequest, plan: Plan, retrieved: Retrieved, answer: Answer
    ) -> Detailed:
        """Score a finished answer: in sequencewise aggregation one side alone drew its tokens."""
        tokens = tuple(answer.tokens)
        # Unlike a prompt, an answer has its logits changed and its documents re-scored.
        asked = scoring_request(
            request,
            plan,
            request.shown,
            tokens,
            rescore_every=plan.rescore_every,
            sampling=request.sampling,
        )
        scored = await self.score(request.id, asked, retrieved.rows, retrieved.rescoring)
        texts = TokenTexts(self.tokenizer)
        found = _described(map(texts.next, tokens), scored, len(retrieved.sources))
        if answer.stopped and tokens[-1] not in self.tokenizer.end_ids:
            found = cut_off(found, answer.length)
        return Detailed(tuple(found))

    async def score(
        self,
        answer: str,
        asked: control.ScoreText,
        rows: Sequence[Row],
        rescoring: Rescoring | None,
    ) -> ScoredText:
        """Score `asked.text` for an answer; raises `DragonError` if the model fails."""
        peer = None
        if self.link is not None and self.link.connected:
            peer = _PeerScores(self.link, answer, asked, self.engine.model.vocab_size)
        adjustment = Adjustment.asked(asked.sampling, asked.conversation, self.tokenizer)
        decoding = Decoding(rescoring, adjustment, detailed=True)
        decoder = self.engine.open(rows, asked.conversation, decoding, limit=len(asked.text))
        try:
            decoder.require(len(asked.text))
            await asyncio.wrap_future(decoder.prefilled)
            return await self._score(asked.text, decoder, peer)
        finally:
            self.engine.close(decoder)
            if peer is not None:
                peer.close()

    async def _score(
        self, text: Sequence[int], decoder: Decoder, peer: _PeerScores | None
    ) -> ScoredText:
        own: list[Scored] = []
        joint: list[Scored] = []
        size = scoring.forward_size(self.engine.model, len(decoder.bases))
        for work in scoring.works(text, size):
            for side in await asyncio.wrap_future(scoring.run(self.engine, decoder, work)):
                token = text[len(own)]
                own.append(await asyncio.to_thread(scoring.scored_alone, side, token, self.top))
                if peer is None:
                    continue
                try:
                    async with asyncio.timeout(_TIMEOUT_S):
                        cloud = await peer.next()
                except (LinkError, TimeoutError) as error:
                    log.warning("scoring a text without the cloud: %s", error or "no answer")
                    peer = None
                else:
                    joint.append(
                        await asyncio.to_thread(scoring.scored, side, cloud, token, self.top)
                    )
        return ScoredText(own, []) if peer is None else ScoredText(joint, peer.sources)


def _described(
    tokens: Iterable[TokenDetail], scored: ScoredText, own_sources: int
) -> list[TokenDetail]:
    sources = own_sources + len(scored.sources)
    return [
        described(token, each, own_sources, sources)
        for token, each in zip(tokens, scored.tokens, strict=True)
    ]


class _PeerScores:
    """Receives the peer's distributions of one text."""

    def __init__(self, link: Link, answer: str, asked: control.ScoreText, vocab_size: int) -> None:
        self._link = link
        self._vocab_size = vocab_size
        self._top_k = asked.top_k
        self._left = len(asked.text)
        self._rows: int | None = None
        self._data = bytearray()
        self._scores: asyncio.Queue[CloudScore | LinkError] = asyncio.Queue()
        self.sources: Sequence[Source] = []
        self._stream = link.open(self, answer)
        link.send(asked, self._stream)

    async def next(self) -> CloudScore:
        """The next position's score; raises `LinkError` if no more come."""
        score = await self._scores.get()
        if isinstance(score, LinkError):
            raise score
        self._link.send(control.ScoreTaken(), self._stream)
        return score

    def close(self) -> None:
        self._link.close(self._stream, "scored")

    # Called by the link.

    def receive(self, message: Message) -> None:
        """Handle the documents the peer conditions on, then its distributions."""
        if isinstance(message, Bulk):
            self._take_distributions(message.data)
        elif self._rows is not None or not isinstance(message, control.Scoring):
            raise FrameError("only the documents are expected here, and only once")
        elif len(message.documents) > self._top_k:
            raise FrameError("more documents came than were requested")
        else:
            self._rows = message.rows
            self.sources = [public_source(document) for document in message.documents]

    def failed(self, message: str, refusal: Refusal | None = None) -> None:
        """No more scores come."""
        self._scores.put_nowait(LinkError(message))

    def link_down(self) -> None:
        """No more scores come."""
        self.failed("the connection was lost")

    def _take_distributions(self, data: bytes) -> None:
        if self._rows is None:
            raise FrameError("distributions came before their documents")
        self._data += data
        size = CloudScore.size(self._rows, self._vocab_size)
        while len(self._data) >= size:
            if not self._left or self._scores.qsize() >= scoring.CREDIT:
                raise FrameError("more distributions came than were requested")
            self._left -= 1
            self._scores.put_nowait(CloudScore.unpack(bytes(self._data[:size]), self._rows))
            del self._data[:size]
