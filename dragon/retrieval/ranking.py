"""Ranks candidate passages and keeps those likely to answer a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from dragon.retrieval.answerability import LEAST_LOG_ODDS, MOST, judged, log_odds
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import coverage, identifiers, words
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.relevance import MINIMUM_SCORE, Hit, relevance, score
from dragon.retrieval.reranker import TextReranker

CANDIDATES = 32
"""The least number of candidates from each ranking, dense and BM25."""

READ = 4
"""The least number of passages that the reranker reads."""

H = TypeVar("H", bound=Hit)


def ranked(query: Query, found: Sequence[H]) -> list[H]:
    """Passages with score and relevance to a query, best first, ties by id.

    A passage's score is its best over the questions of the query. The same text and context get the
    same score on either side.
    """
    scored = []
    for hit in found:
        text = embedded_text(hit.text, hit.context)
        value, shared = max(
            (score(_cosine(hit, asked), shared), shared)
            for question, asked in zip(query.questions, query.vectors, strict=True)
            for shared in [coverage(question, text)]
        )
        scored.append(replace(hit, score=value, relevance=relevance(value), coverage=shared))
    return sorted(scored, key=lambda hit: (-hit.score, hit.id))


def answering(
    query: Query,
    best: Sequence[H],
    k: int,
    reranker: TextReranker,
    least: float = LEAST_LOG_ODDS,
) -> list[H]:
    """At most k of the best passages that are relevant and likely to answer, best first.

    A passage is likely to answer if its log-odds are at least `least` nats; they adjust its score.
    What is asked about B105 is only answered by what names it, and more readily.
    """
    read = [hit for hit in best if hit.score >= MINIMUM_SCORE and _is_of(query, hit)]
    read = read[: max(READ, k)]
    likely = []
    named = bool(identifiers(query.text))
    for hit, odds in zip(read, _judgement(query, read, reranker), strict=True):
        if odds >= (-MOST if named else least):
            value = judged(hit.score, odds)
            judgement, nats = value - hit.score, relevance(value)
            likely.append(replace(hit, score=value, relevance=nats, judgement=judgement))
    return sorted(likely, key=lambda hit: (-hit.score, hit.id))[:k]


def _is_of(query: Query, hit: Hit) -> bool:
    """Whether a passage has one of the identifiers that the query names, if it names any."""
    asked = identifiers(query.text)
    return not asked or not set(asked).isdisjoint(words(embedded_text(hit.text, hit.context)))


def _judgement(query: Query, read: Sequence[Hit], reranker: TextReranker) -> list[float]:
    """Each passage's log-odds of answering the query or one of its questions, nats."""
    seen = [embedded_text(hit.text, hit.context) for hit in read]
    odds = [
        [
            log_odds(float(logit), _cosine(hit, asked), coverage(question, text), question, text)
            for hit, text, logit in zip(read, seen, reranker.logits(question, seen), strict=True)
        ]
        for question, asked in zip(query.questions, query.vectors, strict=True)
    ]
    return [max(of_questions) for of_questions in zip(*odds, strict=True)]


def _cosine(hit: Hit, asked: Vectors) -> float:
    return 0.0 if hit.vector is None else float(hit.vector @ asked)
