"""The `dragon` object of responses and stream chunks, rendered from answers and their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from app.api.openai.delivery import Choice
from app.api.openai.responses import (
    CitationNotice,
    CitationPiece,
    CitationReply,
    DragonChoice,
    DragonNotice,
    DragonReply,
    PeerNotice,
    ProvenanceNotice,
    ProvenancePiece,
    SourceReply,
    TokenProvenance,
)
from app.api.openai.spellings import IGNORED
from app.generation.events import Citation, PeerChanged, SourcesFound, TokenDetail


def reply(choices: Sequence[Choice], *, provenance: bool) -> DragonReply:
    """How finished choices came about."""
    request = choices[0].answer.request
    document_tokens = sum(int(c.answer.end.stats.get("document_tokens", 0)) for c in choices)
    return DragonReply(
        aggregation=request.mode.value,
        seed=request.sampling.seed,
        usage={"document_tokens": document_tokens},
        choices=[_choice(choice, provenance=provenance) for choice in choices],
        ignored=list(dict.fromkeys(IGNORED.get() or ())),
    )


def peer_notice(index: int, event: PeerChanged) -> DragonNotice:
    """The cloud has joined or left a choice."""
    return DragonNotice(peer=PeerNotice(index=index, **asdict(event)))


def citation_notice(index: int, citations: Sequence[Citation]) -> CitationNotice:
    """More citations in a choice's text."""
    return CitationNotice(citations=CitationPiece(index=index, found=_cited(citations)))


def provenance_notice(index: int, details: Sequence[TokenDetail]) -> ProvenanceNotice:
    """Where more tokens of a choice come from."""
    piece = ProvenancePiece(index=index, tokens=_origins(details))
    return ProvenanceNotice(provenance=piece)


def _choice(choice: Choice, *, provenance: bool) -> DragonChoice:
    answer, end = choice.answer, choice.answer.end
    found = answer.found or SourcesFound(())
    return DragonChoice(
        index=choice.index,
        ledger=answer.request.id,
        sources=[SourceReply.of(source) for source in found.sources],
        citations=_cited(answer.citations),
        nothing_relevant=found.nothing_relevant,
        unread_documents=found.unread_documents,
        closest=[SourceReply.of(source) for source in found.closest],
        not_asked=answer.not_asked,
        refused=answer.refused,
        unsearched=answer.unsearched,
        participation=list(end.participation),
        verdicts=end.verdicts,
        stats=dict(end.stats),
        provenance=_origins(answer.details, len(found.sources)) if provenance else None,
    )


def _cited(citations: Sequence[Citation]) -> list[CitationReply]:
    return [CitationReply(**asdict(citation)) for citation in citations]


def _origins(details: Sequence[TokenDetail], sources: int = 0) -> list[TokenProvenance]:
    """Sources found after a token was written have no share in it."""
    found = [TokenProvenance.model_validate(detail.provenance()) for detail in details]
    for token in found:
        token.documents += [0.0] * (sources - len(token.documents))
    return found
