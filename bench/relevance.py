"""Where the constants of dragon/retrieval/relevance.py come from.

    python -m bench.relevance --data ../shared/data

Questions whose answer stands on one side only are asked of both: those of bench/two_sided.jsonl
with its notes on the device and the demo corpus on the cloud, and questions of SQuAD 2.0
(`squad2_dev_open.jsonl`), half of them with the paragraphs among the notes, half in the corpus.
Everything is cut into sentences and embedded as the product does.

`slope`: nats a unit of cosine. Measured is the weight that the side that knows gets, and the slope
that makes these weights likeliest. `threshold`: the least cosine of a sentence that takes part. A
question loses its answer when the sentence that holds it is under the threshold; a question that
nothing answers is refused when every sentence is. The threshold fitted is the highest that loses at
most 2 % of the answers; shown is what it refuses of questions whose paragraph is nowhere, of
SQuAD's unanswerable ones, whose words all stand in a paragraph, and of instructions at large.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp

from bench import report, squad, two_sided
from bench.services import EMBEDDED_MODEL, ROOT
from bench.workload import DATA, read_prompts
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.relevance import BARE_RELEVANCE, MINIMUM_COSINE, SLOPE
from dragon.tokenizer import Tokenizer

TOP_K = 2
THRESHOLDS = np.arange(0.10, 0.61, 0.01)
MOST_LOST = 0.02
INSTRUCTIONS = 200
CORPUS = ROOT / "peer" / "demo_corpus.tsv"

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question: cosines of each side's sentences, and that of the best one that answers.

    `private` says whether it stands on the device; `gold` is None where nothing answers.
    """

    device: Array
    cloud: Array
    gold: float | None
    private: bool


@dataclass(frozen=True)
class Sentences:
    """Sentences and their vectors, float64 [n, dim]."""

    texts: list[str]
    vectors: Array


def cut(texts: list[str], embedder: Embedder, tokenizer: Tokenizer) -> Sentences:
    """Texts as retrieval holds them."""
    pieces = [piece for text in texts for piece in sentences([text], tokenizer)]
    seen = [embedded_text(piece.text, piece.context) for piece in pieces]
    return Sentences([p.text for p in pieces], embedder.embed(seen).astype(np.float64))


def corpus_sentences(embedder: Embedder, tokenizer: Tokenizer) -> Sentences:
    """The demo corpus, whose titles are the context of their sentences."""
    with CORPUS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return cut([row["text"] for row in rows], embedder, tokenizer)


def log_h(cosines: Array, slope: float, threshold: float) -> float:
    """log of a side's weight, as the product computes it."""
    best = np.sort(cosines)[-TOP_K:]
    best = best[best >= threshold]
    return float(logsumexp(slope * (best - threshold))) if len(best) else BARE_RELEVANCE


def knowing_weight(cases: list[Case], slope: float, threshold: float = MINIMUM_COSINE) -> Array:
    """The weight of the side that knows in each case."""
    differences = [
        (log_h(case.device, slope, threshold) - log_h(case.cloud, slope, threshold))
        * (1 if case.private else -1)
        for case in cases
    ]
    return np.asarray(expit(differences), dtype=np.float64)


def summary(name: str, cases: list[Case]) -> dict[str, float | str]:
    """How the side that knows is weighted."""

    def loss(slope: float) -> float:
        return -float(np.log(np.clip(knowing_weight(cases, slope), 1e-12, 1)).mean())

    weights = knowing_weight(cases, SLOPE)
    return {
        "questions": name,
        "cases": len(cases),
        "likeliest_slope": round(float(minimize_scalar(loss, bounds=(2, 120)).x), 1),
        "mean": round(float(weights.mean()), 4),
        "under_half": round(float((weights < 0.5).mean()), 4),
        "under_nine_tenths": round(float((weights < 0.9).mean()), 4),
    }


def two_sided_cases(
    questions: list[two_sided.Question], embedder: Embedder, notes: Sentences, corpus: Sentences
) -> list[Case]:
    """The hand-written and generated questions."""
    asked = embedder.embed([question.text for question in questions]).astype(np.float64)
    cases = []
    for question, vector in zip(questions, asked, strict=True):
        knows = notes if question.side == "private" else corpus
        holds = [question.answered_by(text) for text in knows.texts]
        gold = float((knows.vectors @ vector)[holds].max()) if any(holds) else None
        private = question.side == "private"
        cases.append(Case(notes.vectors @ vector, corpus.vectors @ vector, gold, private))
    return cases


def instruction_cases(
    data: Path, embedder: Embedder, notes: Sentences, corpus: Sentences
) -> list[Case]:
    """Requests that neither notes nor corpus have to do with, as far as a reader can tell."""
    asked = embedder.embed(read_prompts(data / "prompts.jsonl", INSTRUCTIONS)).astype(np.float64)
    return [Case(notes.vectors @ one, corpus.vectors @ one, None, True) for one in asked]


def squad_cases(
    path: Path,
    count: int,
    embedder: Embedder,
    tokenizer: Tokenizer,
    notes: Sentences,
    corpus: Sentences,
) -> dict[str, list[Case]]:
    """Questions over 51 paragraphs: answerable, unanswerable, of other paragraphs."""
    half = squad.open_half(squad.read(path), count)
    held = cut(half.paragraphs, embedder, tokenizer)
    owners = [next(p for p in half.paragraphs if text in p) for text in held.texts]
    cases: dict[str, list[Case]] = {}
    for name in ("answerable", "unanswerable", "elsewhere"):
        asked: list[squad.Asked] = getattr(half, name)
        vectors = embedder.embed([one.question for one in asked]).astype(np.float64)
        cases[name] = []
        for number, (one, vector) in enumerate(zip(asked, vectors, strict=True)):
            holds = [
                owner == one.context and one.answered_by(text)
                for owner, text in zip(owners, held.texts, strict=True)
            ]
            scores = held.vectors @ vector
            sides = [notes.vectors @ vector, corpus.vectors @ vector]
            sides[number % 2] = np.append(sides[number % 2], scores)
            gold = float(scores[holds].max()) if any(holds) else None
            cases[name].append(Case(sides[0], sides[1], gold, number % 2 == 0))
    return cases


def fitted_threshold(answerable: list[Case]) -> float:
    """The highest threshold on the grid that loses at most `MOST_LOST` of the answers."""
    gold = np.array([case.gold for case in answerable if case.gold is not None])
    return round(float(max(t for t in THRESHOLDS if (gold < t).mean() <= MOST_LOST)), 2)


def refusals(name: str, cases: list[Case], thresholds: list[float]) -> dict[str, float | str]:
    """The share of questions without any sentence over each threshold."""
    best = np.array([max(case.device.max(), case.cloud.max()) for case in cases])
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
    embedder, tokenizer = Embedder.load(), Tokenizer.load(EMBEDDED_MODEL)
    corpus = corpus_sentences(embedder, tokenizer)
    questions = [q for q in two_sided.read(two_sided.QUESTIONS) if q.side != "both"]
    notes = cut(two_sided.notes_of(questions), embedder, tokenizer)
    own = two_sided_cases(questions, embedder, notes, corpus)
    path = options.data / "squad2_dev_open.jsonl"
    others = squad_cases(path, options.squad, embedder, tokenizer, notes, corpus)
    others["instructions"] = instruction_cases(options.data, embedder, notes, corpus)
    rows = [summary("two-sided", own), summary("SQuAD", others["answerable"])]
    threshold = fitted_threshold(own + others["answerable"])
    shown = sorted({threshold, MINIMUM_COSINE, 0.35, 0.4, 0.5})
    refused = [
        refusals(name, others[name], shown)
        for name in ("answerable", "elsewhere", "unanswerable", "instructions")
    ]
    in_use = f"In use: slope {SLOPE}, threshold {MINIMUM_COSINE}."
    report.section("relevance", rows, notes=in_use)
    report.section("relevance", refused, title="relevance: refusals", notes=f"Fitted: {threshold}.")
    for row in [*rows, *refused]:
        print(row)
    print(json.dumps({"rows": rows, "refusals": refused, "threshold": threshold}))


if __name__ == "__main__":
    main()
