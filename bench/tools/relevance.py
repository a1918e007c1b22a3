"""Fits the constants of dragon/retrieval/relevance.py.

    python -m bench.relevance --data ../shared/data

Questions whose answer stands on one side only are asked of both: those of harness/two_sided.jsonl
with its notes on the device and the demo corpus on the cloud, and questions of SQuAD 2.0
(`squad2_dev_open.jsonl`), half of them with the paragraphs among the notes, half in the corpus.
Everything is cut into sentences and embedded as the product does.

`words` is the score of a sentence with every word of the question; for several values the report
shows how often the best sentence answers. `slope` is nats per unit of score, fitted to maximise the
likelihood of the side that knows. `threshold` is the least score of a sentence that takes part: a
question loses its answer if the answering sentence is below it, and an unanswerable question is
refused if every sentence is. The fitted threshold is the highest that loses at most 1.5 % of the
answers; the report shows which share it refuses of questions whose paragraph is on neither side, of
SQuAD's unanswerable ones, whose words all occur in a paragraph, and of general instructions.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp

from bench.lib import report, squad
from bench.lib.workload import DATA, read_prompts
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.courtesy import plain
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.lexical import coverage
from dragon.retrieval.relevance import BARE_RELEVANCE, MINIMUM_SCORE, SLOPE, WORDS
from harness import two_sided
from harness.services import DEMO_CORPUS

TOP_K = 2
THRESHOLDS = np.arange(0.10, 0.61, 0.01)
MOST_LOST = 0.015
INSTRUCTIONS = 200

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sentences:
    """Sentences, what is seen of each with its context, and their vectors, float64 [n, dim]."""

    texts: list[str]
    seen: list[str]
    vectors: Array

    def __add__(self, other: Sentences) -> Sentences:
        return Sentences(
            self.texts + other.texts,
            self.seen + other.seen,
            np.concatenate([self.vectors, other.vectors]),
        )


@dataclass(frozen=True)
class Found:
    """How one side's sentences fit a question, float64 [n] each, and which of them answer it."""

    cosines: Array
    coverages: Array
    answers: npt.NDArray[np.bool_]

    def scores(self, words: float) -> Array:
        """As dragon.retrieval.relevance.score."""
        return self.cosines + words * self.coverages


@dataclass(frozen=True)
class Case:
    """A question asked of both sides; `private` says whether its answer stands on the device."""

    device: Found
    cloud: Found
    private: bool

    def best(self, words: float) -> float:
        """The best score on either side."""
        return float(max(self.device.scores(words).max(), self.cloud.scores(words).max()))

    def gold(self, words: float) -> float | None:
        """The best score of a sentence that answers, where it should stand."""
        side = self.device if self.private else self.cloud
        return float(side.scores(words)[side.answers].max()) if side.answers.any() else None


def found(asked: Array, question: str, held: Sentences, answers: list[bool]) -> Found:
    """Cosines and coverages of a question with every sentence."""
    shares = np.array([coverage(plain(question), text) for text in held.seen])
    return Found(held.vectors @ asked, shares, np.array(answers, dtype=bool))


def cut(texts: Sequence[str], embedder: Embedder, titles: Sequence[str] = ()) -> Sentences:
    """Texts as retrieval holds them; a title is the context of what has none."""
    kept, seen = [], []
    for text, title in zip_longest(texts, titles, fillvalue=""):
        for piece in sentences([text]):
            kept.append(piece.text)
            seen.append(embedded_text(piece.text, piece.context or title))
    return Sentences(kept, seen, embedder.embed(seen).astype(np.float64))


def corpus_sentences(embedder: Embedder) -> Sentences:
    """The demo corpus."""
    with DEMO_CORPUS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    titles = [row["title"] for row in rows]
    return cut([row["text"] for row in rows], embedder, titles)


def log_h(scores: Array, slope: float, threshold: float) -> float:
    """log of a side's weight, as the product computes it."""
    best = np.sort(scores)[-TOP_K:]
    best = best[best >= threshold]
    return float(logsumexp(slope * (best - threshold))) if len(best) else BARE_RELEVANCE


def knowing_weight(
    cases: list[Case], slope: float, words: float = WORDS, threshold: float = MINIMUM_SCORE
) -> Array:
    """The weight of the side that knows in each case."""
    differences = [
        (
            log_h(case.device.scores(words), slope, threshold)
            - log_h(case.cloud.scores(words), slope, threshold)
        )
        * (1 if case.private else -1)
        for case in cases
    ]
    return np.asarray(expit(differences), dtype=np.float64)


def summary(name: str, cases: list[Case], words: float) -> dict[str, float | str]:
    """How the side that knows is weighted, and how often the best sentence answers."""

    def loss(slope: float) -> float:
        return -float(np.log(np.clip(knowing_weight(cases, slope, words), 1e-12, 1)).mean())

    weights = knowing_weight(cases, SLOPE, words)
    return {
        "questions": name,
        "cases": len(cases),
        "words": words,
        "best_answers": round(float(np.mean([c.gold(words) == c.best(words) for c in cases])), 4),
        "likeliest_slope": round(float(minimize_scalar(loss, bounds=(2, 120)).x), 1),
        "weight": round(float(weights.mean()), 4),
        "under_half": round(float((weights < 0.5).mean()), 4),
        "under_nine_tenths": round(float((weights < 0.9).mean()), 4),
    }


def two_sided_cases(
    questions: list[two_sided.Question], embedder: Embedder, notes: Sentences, corpus: Sentences
) -> list[Case]:
    """The hand-written and generated questions."""
    cases = []
    vectors = embedder.embed([plain(question.text) for question in questions]).astype(np.float64)
    for question, vector in zip(questions, vectors, strict=True):
        sides = [
            found(vector, question.text, held, [question.answered_by(t) for t in held.texts])
            for held in (notes, corpus)
        ]
        cases.append(Case(sides[0], sides[1], question.side == "private"))
    return cases


def instruction_cases(
    data: Path, embedder: Embedder, notes: Sentences, corpus: Sentences
) -> list[Case]:
    """Requests presumably unrelated to both notes and corpus."""
    asked = read_prompts(data / "prompts.jsonl", INSTRUCTIONS)
    vectors = embedder.embed([plain(text) for text in asked]).astype(np.float64)
    return [
        Case(
            found(vector, text, notes, [False] * len(notes.texts)),
            found(vector, text, corpus, [False] * len(corpus.texts)),
            private=True,
        )
        for text, vector in zip(asked, vectors, strict=True)
    ]


def squad_cases(
    half: squad.OpenHalf,
    embedder: Embedder,
    held: Sentences,
    notes: Sentences,
    corpus: Sentences,
) -> dict[str, list[Case]]:
    """Questions over 51 paragraphs, in turn among the notes and in the corpus."""
    owners = [next(p for p in half.paragraphs if text in p) for text in held.texts]
    cases: dict[str, list[Case]] = {}
    for name in ("answerable", "unanswerable", "elsewhere"):
        asked: list[squad.Asked] = getattr(half, name)
        vectors = embedder.embed([plain(one.question) for one in asked]).astype(np.float64)
        cases[name] = []
        for number, (one, vector) in enumerate(zip(asked, vectors, strict=True)):
            holds = [
                owner == one.context and one.answered_by(text)
                for owner, text in zip(owners, held.texts, strict=True)
            ]
            sides = []
            for place, usual in enumerate((notes, corpus)):
                answers = [False] * len(usual.texts)
                mine = number % 2 == place
                sides.append(
                    found(vector, one.question, usual + held, answers + holds)
                    if mine
                    else found(vector, one.question, usual, answers)
                )
            cases[name].append(Case(sides[0], sides[1], number % 2 == 0))
    return cases


def fitted_threshold(answerable: list[Case]) -> float:
    """The highest threshold on the grid that loses at most `MOST_LOST` of the answers."""
    gold = np.array([score for case in answerable if (score := case.gold(WORDS)) is not None])
    return round(float(max(t for t in THRESHOLDS if (gold < t).mean() <= MOST_LOST)), 2)


def refusals(name: str, cases: list[Case], thresholds: list[float]) -> dict[str, float | str]:
    """The share of questions without any sentence over each threshold."""
    best = np.array([case.best(WORDS) for case in cases])
    shares = {f"refused at {t}": round(float((best < t).mean()), 4) for t in thresholds}
    return {"questions": name, "cases": len(cases), **shares}


def main() -> None:
    """Fit, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="squad2_dev_open.jsonl, prompts.jsonl"
    )
    parser.add_argument("--squad", type=int, default=400, help="questions of each kind")
    options = parser.parse_args()
    embedder = Embedder.load()
    corpus = corpus_sentences(embedder)
    questions = [q for q in two_sided.read(two_sided.QUESTIONS) if q.side != "both"]
    notes = cut(two_sided.notes_of(questions), embedder)
    own = two_sided_cases(questions, embedder, notes, corpus)
    half = squad.open_half(squad.read(options.data / "squad2_dev_open.jsonl"), options.squad)
    held = cut(half.paragraphs, embedder)
    others = squad_cases(half, embedder, held, notes, corpus)
    others["instructions"] = instruction_cases(options.data, embedder, notes, corpus)
    rows = [
        summary(name, cases, words)
        for name, cases in (("two-sided", own), ("SQuAD", others["answerable"]))
        for words in sorted({0.0, 0.1, 0.2, 0.3, WORDS})
    ]
    threshold = fitted_threshold(own + others["answerable"])
    shown = sorted({threshold, MINIMUM_SCORE, 0.35, 0.4, 0.5})
    refused = [
        refusals(name, others[name], shown)
        for name in ("answerable", "elsewhere", "unanswerable", "instructions")
    ]
    in_use = f"In use: words {WORDS}, slope {SLOPE}, threshold {MINIMUM_SCORE}."
    report.section("relevance", rows, notes=in_use)
    report.section("relevance", refused, title="relevance: refusals", notes=f"Fitted: {threshold}.")
    for row in [*rows, *refused]:
        print(row)
    print(json.dumps({"rows": rows, "refusals": refused, "threshold": threshold}))


if __name__ == "__main__":
    main()
