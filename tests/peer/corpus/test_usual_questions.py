"""What people ask first has its answer in the demo corpus, and the right passage comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragon.retrieval.find import READ, LineReader, ranked
from dragon.retrieval.query_parsing import Query
from peer.corpus.store import Corpus
from tests.samples import embedder, judge

QUESTIONS = Path(__file__).with_name("usual_questions.tsv")


@pytest.mark.timeout(900)
def test_usual_questions_find_their_passage_first(corpus: Path) -> None:
    opened = Corpus.open(corpus, embedder())
    missed = []
    for line in QUESTIONS.read_text("utf-8").splitlines()[::2]:
        question, words = line.split("\t")
        query = Query.of(question, embedder())
        hits = opened.search(query.text, query.vector, 2)
        best = ranked(query.questions, query.vectors, hits)[:READ]
        near = {hit.id: opened.near(hit) for hit in best}
        found = LineReader(judge(), embedder()).answering(query.questions, best, near)
        if not found or words.lower() not in found[0].text.lower():
            missed.append(question)
    opened.close()
    assert len(missed) <= 3, missed
