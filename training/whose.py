"""Train the classifier of questions, the person's own or the world's: `python -m training.whose`.

A logistic regression over what the embedded judge makes of the questions in `data/whose.jsonl`:
`own`, `world`, `both`, and those not in English, which it was not trained to read. How much it is
worth beside a line's own log-odds is fitted on the documents kept apart, ten at once, which are
asked their own questions and the world's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from dragon.models import WHOSE
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from training.calibrate import pools
from training.texts import FOLDER, KEPT_APART, read_file

_EACH = 3  # questions of its own, and of the world's, that a document is asked

Odds = npt.NDArray[np.float64]


def learnt(
    states: npt.NDArray[np.float32], kinds: list[int]
) -> tuple[LogisticRegression, npt.NDArray[np.float64]]:
    """The regression, and the cross-validated log-probabilities of each question."""
    model = LogisticRegression(C=0.3, max_iter=4000)
    apart = cross_val_predict(model, states, kinds, cv=5, method="predict_log_proba")
    return model.fit(states, kinds), apart


def odds_of(log_p: npt.NDArray[np.float64]) -> Odds:
    """As `dragon.retrieval.judge.Whose.own`, of log-probabilities [questions, 4]."""
    own, world, both, unread = log_p.T
    return np.logaddexp(own, unread) - np.logaddexp(np.logaddexp(world, both), unread)


def kind_of(row: dict[str, str]) -> int:
    """The number of its class, in the order of the weights."""
    return ("own", "world", "both").index(row["whose"]) if row["language"] == "en" else 3


def states_of(questions: Sequence[str], judge: Judge) -> npt.NDArray[np.float32]:
    made = [judge.state(question) for question in questions]
    assert all(each is not None for each in made), "all are in a script that the judge reads"
    return np.array(made)


def asked(
    model: LogisticRegression, world: Iterator[tuple[str, float]], judge: Judge
) -> Iterator[tuple[float, float, bool]]:
    """The surest line's log-odds, the question's, and whether it is one of the document's own."""
    rng = random.Random(1)
    texts = list(read_file(FOLDER / "questions" / KEPT_APART))
    rng.shuffle(texts)
    for pool in pools(texts, judge, Embedder.load()):
        for text in pool.texts:
            questions = [question for question, _ in rng.sample(text.asked, _EACH)]
            odds = odds_of(model.predict_log_proba(states_of(questions, judge)))
            own = [(*each, True) for each in zip(questions, odds, strict=True)]
            for question, odd, is_own in [*own, *((*next(world), False) for _ in range(_EACH))]:
                yield max((line.odds for line in pool.read(question)), default=-9.0), odd, is_own


def main() -> None:
    lines = (FOLDER / "whose.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    kinds, judge = [kind_of(row) for row in rows], Judge.load()
    model, apart = learnt(states_of([row["q"] for row in rows], judge), kinds)
    odds, chosen, english = odds_of(apart), apart.argmax(1), np.array(kinds) < 3
    told = ((odds > 0) == (np.array(kinds) == 0))[english]
    print(f"{len(told)} questions in English, each by the other four fifths: own {told.mean():.3f}")
    for kind, name in enumerate(("own", "world", "both")):
        said = np.mean(chosen[np.array(kinds) == kind] == 2)
        print(f"  of {name}, taken for both: {said:.3f}")
    weights = np.concatenate((model.coef_, model.intercept_[:, None]), axis=1)
    np.savez(WHOSE, judge=judge.fingerprint, weights=weights.astype(np.float32))
    world = [(row["q"], odd) for row, odd, kind in zip(rows, odds, kinds, strict=True) if kind == 1]
    random.Random(1).shuffle(world)
    seen = np.array(list(asked(model, iter(world), judge)))
    lines_and_questions = np.stack((seen[:, 0], np.minimum(0, seen[:, 1])), axis=1)
    fitted = LogisticRegression(C=1e4).fit(lines_and_questions, seen[:, 2]).coef_[0]
    print(f"WORLD = {fitted[1] / fitted[0]:.2f}")


if __name__ == "__main__":
    main()
