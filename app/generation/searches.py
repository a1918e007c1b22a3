"""What a request's passages are searched by, and where: one search after another until one finds.

A question that leans on those before it ("and when?") is asked of the document that the last answer
quotes first, and then of all. With the words that it lacks it resembles the passage that answered
the question before: so another question is never given them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.documents.hits import DocumentHit, Scope
from app.documents.summary import subject
from app.generation.events import GenerationRequest
from dragon.link import control
from dragon.retrieval.courtesy import plain
from dragon.retrieval.lexical import content_words, coverage, identifiers
from dragon.retrieval.prompt_rows import NO_ANSWER
from dragon.retrieval.standing_alone import leans

_QUOTED = 0.8
"""The share of its words that a passage and a reply which quotes it have in common, at least."""


class Documents(Protocol):
    """Finds what comes nearest to a text."""

    async def search(
        self, query: str, k: int, scope: Scope, *, relevant: bool
    ) -> Sequence[DocumentHit]: ...


@dataclass(frozen=True)
class Search:
    """A text to search by, and where."""

    query: str
    scope: Scope


async def searches(request: GenerationRequest, documents: Documents) -> list[Search]:
    """The searches for a request's passages, in order."""
    query, scope = request.query, Scope(request.documents, request.collections)
    alone = request.query_alone or query
    anywhere = [Search(each, scope) for each in dict.fromkeys((query, alone))]
    if not content_words(query) or subject(query) == frozenset():
        anywhere = anywhere[-1:]  # "And when?" by itself finds any date
    replies = [m.content for m in request.messages if m.role == "assistant"]
    reply = replies[-1][-control.MAX_QUERY :] if replies else ""
    row = _row_of(reply)
    leaning = request.query_alone is not None and leans(plain(query))
    of_row = row is not None and coverage(query, reply) == 1.0
    if not reply or not (leaning or of_row):
        return anywhere
    document = await _quoted(reply, scope, documents)
    if document is None:
        return anywhere
    there = [f"{plain(query)} ({row})"] if row else []
    there += [alone] if leaning else []
    return [*(Search(each, Scope((document,))) for each in there), *anywhere]


async def last_quoted(request: GenerationRequest, documents: Documents) -> str | None:
    """The document that the last reply with an answer quotes, if any."""
    for message in reversed(request.messages):
        if message.role == "assistant" and message.content != NO_ANSWER:
            reply = message.content[-control.MAX_QUERY :]
            return await _quoted(reply, Scope(request.documents, request.collections), documents)
    return None


def _row_of(reply: str) -> str | None:
    """What names the row of a table that a reply quotes, if it quotes one."""
    named = dict.fromkeys(identifiers(reply))
    return next(iter(named)) if len(named) == 1 else None


async def _quoted(reply: str, scope: Scope, documents: Documents) -> str | None:
    """The document that a reply quotes, if any."""
    if not reply or reply == NO_ANSWER:
        return None
    for hit in await documents.search(reply, 1, scope, relevant=False):
        # A reply may be a passage and more, or a part of one, such as a cell of a row.
        if max(coverage(hit.text, reply), coverage(reply, hit.text)) >= _QUOTED:
            return hit.document
    return None
