"""Where the constants of dragon/retrieval/relevance.py come from.

    python -m bench.relevance [SQUAD_JSONL]

Questions whose answer stands on one side only are asked of both: those of bench/two_sided.jsonl
with its notes on the device and the demo corpus on the cloud, and, if a SQuAD 2.0 file is given
(`title, context, question, answers, unanswerable` a line), 400 of its questions, each once with its
context on the device and once with it in the corpus. Measured is the weight that the side that
knows would get, over slopes, and the slope that makes these weights likeliest.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp

from dragon.retrieval.chunking import chunk
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.relevance import BARE_RELEVANCE, MINIMUM_SCORE, SLOPE
from dragon.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
TOP_K = 4
CONTEXTS = 8  # of other articles, on the device besides the one that answers
QUESTIONS = 400

Array = npt.NDArray[np.float64]
Case = tuple[Array, Array, bool]
"""Cosines on the device, cosines on the cloud, whether the device knows."""


def knowing_weight(cases: list[Case], slope: float, bare: float = BARE_RELEVANCE) -> Array:
    """The weight of the side that knows in each case."""

    def log_h(cosines: Array) -> float:
        best = np.sort(cosines)[-TOP_K:]
        best = best[best >= MINIMUM_SCORE]
        return float(logsumexp(slope * (best - MINIMUM_SCORE))) if len(best) else bare

    differences = [(log_h(d) - log_h(c)) * (1 if known else -1) for d, c, known in cases]
    return np.asarray(expit(differences), dtype=np.float64)


def summary(cases: list[Case]) -> dict[str, float]:
    def loss(slope: float) -> float:
        return -float(np.log(np.clip(knowing_weight(cases, slope), 1e-12, 1)).mean())

    weights = knowing_weight(cases, SLOPE)
    return {
        "likeliest_slope": round(float(minimize_scalar(loss, bounds=(2, 120)).x), 1),
        "mean": round(float(weights.mean()), 4),
        "least": round(float(weights.min()), 4),
        "under_half": round(float((weights < 0.5).mean()), 4),
        "under_nine_tenths": round(float((weights < 0.9).mean()), 4),
    }


def two_sided(embedder: Embedder, tokenizer: Tokenizer, corpus: Array) -> list[Case]:
    lines = (ROOT / "bench" / "two_sided.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    notes = [c.text for row in rows if "note" in row for c in chunk([row["note"]], tokenizer)]
    asked = embedder.embed([row["question"] for row in rows]).astype(np.float64)
    device, cloud = asked @ embedder.embed(notes).T, asked @ corpus.T
    known = [row["side"] == "private" for row in rows]
    return list(zip(device, cloud, known, strict=True))


def squad(path: Path, embedder: Embedder, tokenizer: Tokenizer, corpus: Array) -> list[Case]:
    rng = random.Random(0)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if not row["unanswerable"]]
    rows = rng.sample(rows, QUESTIONS)
    titles = {row["context"]: row["title"] for row in rows}
    vectors = {c: embedder.embed([k.text for k in chunk([c], tokenizer)]) for c in titles}
    asked = embedder.embed([row["question"] for row in rows]).astype(np.float64)
    cases: list[Case] = []
    for row, question in zip(rows, asked, strict=True):
        foreign = sorted(c for c, title in titles.items() if title != row["title"])
        others = np.concatenate([vectors[c] for c in rng.sample(foreign, CONTEXTS)]) @ question
        own, public = vectors[row["context"]] @ question, corpus @ question
        cases.append((np.concatenate([own, others]), public, True))
        cases.append((others, np.concatenate([own, public]), False))
    return cases


def main() -> None:
    embedder, tokenizer = Embedder.load(), Tokenizer.load(ROOT / "models" / "dragon-7m")
    lines = (ROOT / "peer" / "demo_corpus.tsv").read_text(encoding="utf-8").splitlines()[1:]
    passages = [line.split("\t") for line in lines]
    corpus = embedder.embed([f"{title}. {text}" for _, title, text in passages]).astype(np.float64)
    result = {"slope": SLOPE, "two_sided": summary(two_sided(embedder, tokenizer, corpus))}
    if len(sys.argv) > 1:
        result["squad"] = summary(squad(Path(sys.argv[1]), embedder, tokenizer, corpus))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
