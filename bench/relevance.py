"""Where the constants of dragon/retrieval/relevance.py come from.

    python -m bench.relevance --data ../shared/data

Questions whose answer stands on one side only are asked of both: those of bench/two_sided.jsonl
with its notes on the device and the demo corpus on the cloud, and questions of SQuAD 2.0
(`squad2_dev_open.jsonl`), each once with its paragraph on the device and once with it in the corpus.
Everything is cut into sentences and embedded as the product does.

`slope`: nats a unit of cosine. Measured is the weight that the side that knows gets, and the slope
that makes these weights likeliest. `threshold`: the least cosine of a sentence that takes part. A
question loses its answer when the sentence that holds it is under the threshold; a question that
nothing answers is refused when every sentence is. The threshold fitted is the one with the greatest
share refused less share lost, over questions about paragraphs that are nowhere.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp

from bench import report, squad, two_sided
from bench.services import EMBEDDED_MODEL, ROOT
from bench.workload import DATA
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.relevance import BARE_RELEVANCE, MINIMUM_COSINE, SLOPE
from dragon.tokenizer import Tokenizer

TOP_K = 2
THRESHOLDS = np.arange(0.10, 0.61, 0.01)
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


def gold_cosine(asked: Array, found: Sentences, answered_by: list[bool]) -> float | None:
    """The best cosine among the sentences that answer."""
    scores = (found.vectors @ asked)[np.array(answered_by, dtype=bool)]
    return float(scores.max()) if len(scores) else None


def two_sided_cases(embedder: Embedder, tokenizer: Tokenizer, corpus: Sentences) -> list[Case]:
    """The hand-written and generated questions."""
    questions = [q for q in two_sided.read(two_sided.QUESTIONS) if q.side != "both"]
    notes = cut(two_sided.notes_of(questions), embedder, tokenizer)
    asked = embedder.embed([question.text for question in questions]).astype(np.float64)
    cases = []
    for question, vector in zip(questions, asked, strict=True):
        knows = notes if question.side == "private" else corpus
        gold = gold_cosine(vector, knows, [question.answered_by(text) for text in knows.texts])
        private = question.side == "private"
        cases.append(Case(notes.vectors @ vector, corpus.vectors @ vector, gold, private))
    return cases


def squad_cases(
    path: Path, count: int, embedder: Embedder, tokenizer: Tokenizer, corpus: Sentences
) -> dict[str, list[Case]]:
    """Questions over 51 paragraphs: answerable (on either side), unanswerable, of others."""
    half = squad.open_half(squad.read(path), count)
    held = cut(half.paragraphs, embedder, tokenizer)
    owners = [next(p for p in half.paragraphs if text in p) for text in held.texts]
    rng = random.Random(0)
    cases: dict[str, list[Case]] = {}
    for name in ("answerable", "unanswerable", "elsewhere"):
        asked: list[squad.Asked] = getattr(half, name)
        vectors = embedder.embed([one.question for one in asked]).astype(np.float64)
        cases[name] = []
        for one, vector in zip(asked, vectors, strict=True):
            own = [owner == one.context for owner in owners]
            holds = [mine and one.answered_by(t) for mine, t in zip(own, held.texts, strict=True)]
            gold = gold_cosine(vector, held, holds) if name == "answerable" else None
            scores, public = held.vectors @ vector, corpus.vectors @ vector
            if rng.random() < 0.5:
                cases[name].append(Case(scores, public, gold, True))
            else:
                cases[name].append(
                    Case(public[: len(public) // 2], np.append(scores, public), gold, False)
                )
    return cases


def thresholds(answerable: list[Case], nothing: list[Case]) -> tuple[float, list[dict[str, float]]]:
    """The fitted threshold, and lost and refused shares along the grid."""
    gold = np.array([case.gold for case in answerable if case.gold is not None])
    best = np.array([max(case.device.max(), case.cloud.max()) for case in nothing])
    rows = [
        {
            "threshold": round(float(t), 2),
            "lost": round(float((gold < t).mean()), 4),
            "refused": round(float((best < t).mean()), 4),
        }
        for t in THRESHOLDS
    ]
    fitted = max(rows, key=lambda row: row["refused"] - row["lost"])
    return fitted["threshold"], rows


def main() -> None:
    """Fit, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="squad2_dev_open.jsonl")
    parser.add_argument("--squad", type=int, default=400, help="questions of each kind")
    options = parser.parse_args()
    embedder, tokenizer = Embedder.load(), Tokenizer.load(EMBEDDED_MODEL)
    corpus = corpus_sentences(embedder, tokenizer)
    own = two_sided_cases(embedder, tokenizer, corpus)
    path = options.data / "squad2_dev_open.jsonl"
    others = squad_cases(path, options.squad, embedder, tokenizer, corpus)
    rows = [summary("two-sided", own), summary("SQuAD", others["answerable"])]
    fits = {
        name: thresholds(own + others["answerable"], others[name])
        for name in ("elsewhere", "unanswerable")
    }
    for name, (fitted, grid) in fits.items():
        print(f"{name}: threshold {fitted}")
        for row in grid[::5]:
            print(f"  {row}")
    report.section(
        "relevance",
        rows,
        notes=f"Thresholds fitted: { ({k: v[0] for k, v in fits.items()}) }; slope in use {SLOPE}, threshold in use {MINIMUM_COSINE}.",
    )
    print(json.dumps({"rows": rows, "thresholds": {k: v[0] for k, v in fits.items()}}))


if __name__ == "__main__":
    main()
