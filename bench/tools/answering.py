"""Fits the constants of dragon/retrieval/answerability.py.

    python -m bench.answering --data ../shared/data

The questions are those of bench/tools/relevance.py: about notes and the demo corpus, and of SQuAD
2.0, about other paragraphs than those of bench/experiments/quality.py. The best passage of each
side that reaches the least score is one case, labelled by whether it answers. Logistic regression
on its features, with kinds of questions weighted by `KINDS`, gives the constants. For several
thresholds the report shows the share of questions left without any passage, and for how many of
those with an answer the best remaining passage answers: a threshold trades one for the other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize

from bench.lib import report, squad
from bench.lib.workload import DATA, read_prompts
from bench.tools.relevance import Sentences, corpus_sentences, cut
from dragon.retrieval.answerability import CONSTANTS, LEAST_LOG_ODDS, features, judged
from dragon.retrieval.courtesy import plain
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.lexical import coverage
from dragon.retrieval.ranking import READ
from dragon.retrieval.relevance import MINIMUM_SCORE, WORDS
from dragon.retrieval.reranker import Reranker
from harness import two_sided

KINDS = {"private": 1.0, "public": 1.0, "answerable": 1.0, "unanswerable": 1.0, "elsewhere": 0.3,
         "instructions": 0.3}  # fmt: skip
THRESHOLDS = tuple(np.round(np.arange(-2.5, 0.6, 0.2), 1).tolist())
PENALTY = 0.3
NEAREST = 400
"""Candidate sentences, by highest cosine."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """The passages of a side that are read, best first: features float64 [n, 8], scores and whether
    they answer, [n] each.
    """

    features: Array
    scores: Array
    answers: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """A question of a kind, asked of both sides."""

    kind: str
    sides: tuple[Side, Side]

    def left(self, constants: Array, least: float) -> list[tuple[float, bool]]:
        """Scores of the passages that take part, and whether they answer."""
        return [
            (judged(float(score), float(odds)), bool(answer))
            for side in self.sides
            for odds, score, answer in zip(
                side.features @ constants, side.scores, side.answers, strict=True
            )
            if odds >= least
        ]


@dataclass(frozen=True)
class Reader:
    """What reads the best passages of a side."""

    embedder: Embedder
    reranker: Reranker

    def case(
        self, kind: str, question: str, held: tuple[Sentences, Sentences], golds: tuple[str, ...]
    ) -> Case:
        """A case; a passage answers if one of `golds` stands in it."""
        question = plain(question)
        asked = self.embedder.embed([question])[0].astype(np.float64)
        device, cloud = (self._side(question, asked, one, golds) for one in held)
        return Case(kind, (device, cloud))

    def _side(self, question: str, asked: Array, held: Sentences, golds: tuple[str, ...]) -> Side:
        near = np.argsort(-(held.vectors @ asked))[:NEAREST]
        cosines = held.vectors[near] @ asked
        seen = [held.seen[i] for i in near]
        shared = np.array([coverage(question, each) for each in seen])
        scores = cosines + WORDS * shared
        best = [int(i) for i in np.argsort(-scores)[:READ] if scores[i] >= MINIMUM_SCORE]
        logits = self.reranker.logits(question, [seen[i] for i in best])
        made = [
            features(float(logit), float(cosines[i]), float(shared[i]), question, seen[i])
            for i, logit in zip(best, logits, strict=True)
        ]
        texts = [held.texts[near[i]].lower() for i in best]
        answers = [any(gold.lower() in text for gold in golds) for text in texts]
        return Side(
            np.array(made).reshape(-1, len(CONSTANTS)), scores[best], np.array(answers, bool)
        )


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All cases. SQuAD's paragraphs stand in turn among the notes and in the corpus."""
    embedder = Embedder.load()
    reader = Reader(embedder, Reranker.load(options.reranker))
    corpus = corpus_sentences(embedder)
    questions = two_sided.read(two_sided.QUESTIONS)
    notes = cut(two_sided.notes_of(questions), embedder)
    one_sided = [question for question in questions if question.side != "both"]
    for question in two_sided.spread(one_sided, options.questions):
        yield reader.case(question.side, question.text, (notes, corpus), question.gold)
    every = squad.read(options.data / "squad2_dev_open.jsonl")
    reported = squad.open_half(every, options.squad).paragraphs
    others = [one for one in every if one.context not in reported]
    half = squad.open_half(others, options.squad, seed=2)
    held = cut(half.paragraphs, embedder)
    places = (notes + held, corpus), (notes, corpus + held)
    for kind, asked in (
        ("answerable", half.answerable),
        ("unanswerable", half.unanswerable),
        ("elsewhere", half.elsewhere),
    ):
        for number, one in enumerate(asked):
            golds = one.answers if kind == "answerable" else ()
            yield reader.case(kind, one.question, places[number % 2], golds)
    for text in read_prompts(options.data / "prompts.jsonl", options.instructions):
        yield reader.case("instructions", text, (notes, corpus), ())


def fitted(found: Sequence[Case]) -> Array:
    """The constants that make it likeliest which of the best passages answer."""
    first = [(s, case.kind) for case in found for s in case.sides if len(s.scores)]
    given = np.array([side.features[0] for side, _ in first])
    answers = np.array([side.answers[0] for side, _ in first])
    weights = np.array([KINDS[kind] for _, kind in first])

    def loss(constants: Array) -> float:
        odds = given @ constants
        penalty = PENALTY * float(constants[:-1] @ constants[:-1])
        return float(weights @ (np.logaddexp(0, odds) - answers * odds)) + penalty

    best: Array = np.round(minimize(loss, np.zeros(given.shape[1])).x, 2)
    return best


def shares(found: Sequence[Case], constants: Array, kind: str) -> dict[str, object]:
    """For each threshold the share refused and, after a slash, of those with a right answer."""
    own = [case for case in found if case.kind == kind]
    row: dict[str, object] = {"questions": kind, "cases": len(own)}
    for least in THRESHOLDS:
        left = [case.left(constants, least) for case in own]
        refused = np.mean([not passages for passages in left])
        right = np.mean([bool(passages) and max(passages)[1] for passages in left])
        row[f"{least}"] = f"{refused:.2f} / {right:.2f}"
    return row


def main() -> None:
    """Fit, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="squad2_dev_open.jsonl, prompts.jsonl"
    )
    parser.add_argument("--reranker", type=Path, help="a directory; default: the embedded one")
    parser.add_argument("--questions", type=int, default=200, help="two-sided ones, a side")
    parser.add_argument("--squad", type=int, default=300, help="questions of each kind")
    parser.add_argument("--instructions", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = list(cases(options))
    constants = fitted(found)
    rows = [shares(found, constants, kind) for kind in KINDS]
    note = f"Fitted: {tuple(constants.tolist())}; in use: {CONSTANTS}, least {LEAST_LOG_ODDS}."
    report.section("answering", rows, notes=note)
    for row in rows:
        print(row)
    print(note)
    print(json.dumps({"rows": rows, "fitted": constants.tolist()}))


if __name__ == "__main__":
    main()
