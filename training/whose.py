"""Learn to tell whose matter a question is: `python -m training.whose`

A logistic regression over the packaged embedder's vectors of the questions in `data/whose.jsonl`:
`own`, the rest (`world`, and `both`, which need the cloud as well), and other languages than
English, in which that embedder tells them apart no better than 0.65. How much it is worth beside a
line's own log-odds is fitted on the documents kept apart, ten at once, which are asked their own
questions and the world's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from dragon.models import WHOSE
from dragon.retrieval import find
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from training.calibrate import TOGETHER, hits_of
from training.texts import FOLDER, KEPT_APART, read_file

_EACH = 3
"""How many of its own questions, and of the world's, a document is asked."""

Odds = npt.NDArray[np.float64]


def learnt(vectors: npt.NDArray[np.float32], kinds: list[int]) -> tuple[LogisticRegression, Odds]:
    """The regression, and the log-odds of each question by one that has not seen it."""
    model = LogisticRegression(C=3.0, max_iter=3000)
    apart = cross_val_predict(model, vectors, kinds, cv=5, method="predict_log_proba")
    return model.fit(vectors, kinds), odds_of(apart)


def odds_of(log_p: npt.NDArray[np.float64]) -> Odds:
    """As `dragon.retrieval.whose.own_odds`, of log-probabilities [questions, 3]."""
    own, other, unread = log_p.T
    return np.logaddexp(own, unread) - np.logaddexp(other, unread)


def kind_of(row: dict[str, str]) -> int:
    """0: one's own, 1: not, or not alone, 2: not in English."""
    return 2 if row["language"] != "en" else int(row["whose"] != "own")


def asked(
    model: LogisticRegression, world: Iterator[tuple[str, float]], embedder: Embedder
) -> Iterator[tuple[float, float, bool]]:
    """The surest line's log-odds, the question's, and whether it is one of the document's own."""
    rng, reader = random.Random(1), find.LineReader(Judge.load(), embedder)
    texts = list(read_file(FOLDER / "questions" / KEPT_APART))
    rng.shuffle(texts)
    for at in range(0, len(texts), TOGETHER):
        pool = texts[at : at + TOGETHER]
        hits = [hit for text in pool for hit in hits_of(text, embedder)]
        every = [replace(hit, id=n) for n, hit in enumerate(hits)]
        near = {hit.id: [o for o in every if o.document == hit.document] for hit in every}
        for text in pool:
            questions = [question for question, _ in rng.sample(text.asked, _EACH)]
            odds = odds_of(model.predict_log_proba(embedder.embed(questions)))
            own = [(*each, True) for each in zip(questions, odds, strict=True)]
            for question, odd, is_own in [*own, *((*next(world), False) for _ in range(_EACH))]:
                best = find.ranked([question], embedder.embed([question]), every)
                read = reader.judged(question, find.to_read([question], best), near)
                yield max((line.odds for line in read), default=-9.0), odd, is_own


def main() -> None:
    """Learn, write the weights, and print how good they are and what they are worth."""
    lines = (FOLDER / "whose.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    kinds, embedder = [kind_of(row) for row in rows], Embedder.load()
    model, apart = learnt(embedder.embed([row["q"] for row in rows]), kinds)
    told = [(odds > 0) == (kind == 0) for odds, kind in zip(apart, kinds, strict=True) if kind < 2]
    print(f"{len(told)} questions in English, told rightly by the other four fifths: "
          f"{np.mean(told):.3f}")  # fmt: skip
    weights = np.concatenate((model.coef_, model.intercept_[:, None]), axis=1)
    np.save(WHOSE, weights.astype(np.float32))
    world = [
        (row["q"], odds)
        for row, odds, kind in zip(rows, apart, kinds, strict=True)
        if kind == 1 and row["whose"] == "world"
    ]
    random.Random(1).shuffle(world)
    seen = np.array(list(asked(model, iter(world), embedder)))
    lines_and_questions = np.stack((seen[:, 0], np.minimum(0, seen[:, 1])), axis=1)
    fitted = LogisticRegression(C=1e4).fit(lines_and_questions, seen[:, 2]).coef_[0]
    print(f"WORLD = {fitted[1] / fitted[0]:.2f}")


if __name__ == "__main__":
    main()
