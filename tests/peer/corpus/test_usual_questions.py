"""What people ask first has its answer in the demo corpus, and the right passage comes first."""

from __future__ import annotations

from pathlib import Path

from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import answering, ranked
from peer.corpus.store import Corpus
from tests.samples import embedder, reranker

QUESTIONS = Path(__file__).with_name("usual_questions.tsv")


def test_usual_questions_find_their_passage_first(corpus: Path) -> None:
    opened = Corpus.open(corpus, embedder())
    missed = []
    for line in QUESTIONS.read_text("utf-8").splitlines():
        question, words = line.split("\t")
        query = Query.of(question, embedder())
        best = ranked(query, opened.search(query.text, query.vector, 2))
        found = answering(query, best, 2, reranker())
        if not found or words.lower() not in found[0].text.lower():
            missed.append(question)
    opened.close()
    assert len(missed) <= 5, missed
