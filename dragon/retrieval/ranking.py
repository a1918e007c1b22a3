"""Ranks candidate passages and keeps those likely to answer a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from dragon.retrieval.answerability import LEAST_LOG_ODDS, MOST, judged, log_odds
from dragon.retrieval.chunking import embedded_text, unnumbered
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import coverage, identifiers, lacking, words
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.relevance import MINIMUM_SCORE, SLOPE, Hit, relevance, score
from dragon.retrieval.reranker import TextReranker

CANDIDATES = 32
"""The least number of candidates from each ranking, dense and BM25."""

READ = 4
"""The least number of passages that the reranker reads."""

LOST = 0.6
"""By how much a passage with the sentences behind it may be less likely to answer, nats."""

LEAST_SHARE = 1 / 8
"""The least weight of a passage beside the one that answers a question best.

Among passages that are quoted only those that the text has begun have a say. So the other side
could have any of them go on, by its first words, however little it weighs.
"""

_ENDS = tuple(".!?…。！？")

H = TypeVar("H", bound=Hit)


def ranked(query: Query, found: Sequence[H]) -> list[H]:
    """Passages with score and relevance to a query, best first, ties by id.

    A passage's score is its best over the questions of the query. The same text and context get the
    same score on either side.
    """
    scored = []
    for hit in found:
        value, shared = max(
            (score(_cosine(hit, asked), shared), shared)
            for question, asked in zip(query.questions, query.vectors, strict=True)
            for shared in [_shared(question, hit)]
        )
        scored.append(replace(hit, score=value, relevance=relevance(value), coverage=shared))
    return sorted(scored, key=lambda hit: (-hit.score, hit.id))


def nearness(query: Query, hit: Hit) -> float:
    """The cosine of a passage and the question of the query that it is nearest to."""
    return max(_cosine(hit, asked) for asked in query.vectors)


def answering(
    query: Query,
    best: Sequence[H],
    k: int,
    reranker: TextReranker,
    least: float = LEAST_LOG_ODDS,
    embedder: TextEmbedder | None = None,
) -> list[H]:
    """At most k of the best passages that are relevant and likely to answer, best first.

    With an `embedder` what is read is embedded by itself first: vectors that were made among other
    passages find well, but the constants are fitted to those of a passage and its context alone.

    A passage is likely to answer if its log-odds are at least `least` nats; they adjust its score.
    What is asked about B105 is only answered by what names it, and more readily. Beside what
    answers the same question better it must have weight. A line that only says what is asked for,
    as a heading does, answers where nothing else does.
    """
    telling = [hit for hit in best if _tells(hit.text, query)]
    likely = _likely(query, telling, k, reranker, least, embedder)
    if not likely and len(telling) < len(best):
        likely = _likely(query, best, k, reranker, least, embedder)
    return likely


def _tells(text: str, query: Query) -> bool:
    """Whether a text is a sentence, or has words that the question has not."""
    return text.endswith(_ENDS) or bool(lacking(unnumbered(text), query.text))


def _likely(
    query: Query,
    best: Sequence[H],
    k: int,
    reranker: TextReranker,
    least: float,
    embedder: TextEmbedder | None,
) -> list[H]:
    named = set(identifiers(query.text))
    near = (hit for hit in best if embedder or hit.score >= MINIMUM_SCORE)
    read = [hit for hit in near if not named or named.intersection(words(_seen(hit)))]
    read = read[: max(READ, k)]
    if embedder:
        exact = embedded(read, embedder)
        read = [hit for hit in ranked(query, exact) if hit.score >= MINIMUM_SCORE]
    if named:
        least = -MOST
    by_question = _log_odds(query, read, reranker)
    weighty = _weighty(query, read, by_question, least)
    likely = []
    for hit, odds in zip(read, map(max, zip(*by_question, strict=True)), strict=True):
        if hit.id in weighty:
            value = judged(hit.score, odds)
            judgement, nats = value - hit.score, relevance(value)
            likely.append(replace(hit, score=value, relevance=nats, judgement=judgement))
    return sorted(likely, key=lambda hit: (-hit.score, hit.id))[:k]


def _weighty(
    query: Query, read: Sequence[Hit], by_question: Sequence[Sequence[float]], least: float
) -> set[int]:
    """Ids of the passages that are likely to answer a question, and of weight for it."""
    weighty: set[int] = set()
    for question, asked, odds in zip(query.questions, query.vectors, by_question, strict=True):
        scores = {
            hit.id: judged(score(_cosine(hit, asked), _shared(question, hit)), nats)
            for hit, nats in zip(read, odds, strict=True)
            if nats >= least
        }
        enough = max(scores.values(), default=0.0) + math.log(LEAST_SHARE) / SLOPE
        weighty.update(key for key, value in scores.items() if value >= enough)
    return weighty


def embedded(hits: Sequence[H], embedder: TextEmbedder) -> list[H]:
    """Passages with the vectors of each by itself, with its context."""
    vectors = embedder.embed([_seen(hit) for hit in hits])
    return [replace(hit, vector=vector) for hit, vector in zip(hits, vectors, strict=True)]


def as_far_as_it_answers(
    query: Query, lengths: Sequence[H], embedder: TextEmbedder, reranker: TextReranker
) -> H:
    """The longest of the `lengths` of a passage that answers about as well as the shortest.

    Its text alone changes: what a passage counts does not depend on what follows it.
    """
    if len(lengths) < 2:
        return lengths[0]
    judged = embedded(lengths, embedder)
    odds = [max(each) for each in zip(*_log_odds(query, judged, reranker), strict=True)]
    longest = max(n for n, each in enumerate(odds) if each >= odds[0] - LOST)
    return replace(lengths[longest], vector=lengths[0].vector)


def _seen(hit: Hit) -> str:
    """A passage as the embedder and the reranker see it."""
    return embedded_text(hit.text, hit.context)


def _shared(question: str, hit: Hit) -> float:
    """The share of a question's words in a passage, or in what its document is about."""
    return coverage(question, f"{_seen(hit)} {hit.about}")


def _log_odds(query: Query, read: Sequence[Hit], reranker: TextReranker) -> list[list[float]]:
    """For each question of the query each passage's log-odds of answering it, nats."""
    seen = [_seen(hit) for hit in read]
    return [
        [
            log_odds(
                float(logit), _cosine(hit, asked), _shared(question, hit), question, text, hit.about
            )
            for hit, text, logit in zip(read, seen, reranker.logits(question, seen), strict=True)
        ]
        for question, asked in zip(query.questions, query.vectors, strict=True)
    ]


def _cosine(hit: Hit, asked: Vectors) -> float:
    return 0.0 if hit.vector is None else float(hit.vector @ asked)
