"""Where the constants of dragon/retrieval/relevance.py come from.

    python -m bench.relevance [SQUAD_JSONL]

Questions whose answer stands on one side only are asked of both: those of bench/two_sided.jsonl
with its notes on the device and the demo corpus on the cloud, and, if a SQuAD 2.0 file is given
(`title, context, question, answers, unanswerable` a line), 400 of its questions, each once with its
context on the device and once with it in the corpus. Measured are the weight that the side that
knows would get, the slope and the worth of shared words that make these weights likeliest, and how
often each side finds something relevant.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.lexical import coverage
from dragon.retrieval.relevance import BARE_RELEVANCE, MINIMUM_SCORE, SLOPE, WORDS
from dragon.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
TOP_K = 4
CANDIDATES = 32  # the nearest of a side, whose words are looked at
CONTEXTS = 8  # of other articles, on the device besides the one that answers
QUESTIONS = 400

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Texts:
    """What a side has: texts as they are embedded, and their vectors, float64 [n, dim]."""

    texts: Sequence[str]
    vectors: Array

    @classmethod
    def of(cls, texts: Sequence[str], embedder: Embedder) -> Self:
        """Embed them."""
        return cls(texts, embedder.embed(texts).astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Self:
        """Several as one."""
        texts = [text for part in parts for text in part.texts]
        return cls(texts, np.concatenate([part.vectors for part in parts]))


@dataclass(frozen=True)
class Candidates:
    """Of the texts nearest to a question: cosine, and the share of its words, each [n]."""

    cosines: Array
    coverages: Array

    @classmethod
    def of(cls, question: str, vector: Array, side: Texts) -> Self:
        """Look a question up."""
        cosines = side.vectors @ vector
        best = np.argsort(-cosines)[:CANDIDATES]
        return cls(cosines[best], np.array([coverage(question, side.texts[i]) for i in best]))

    def relevant(self) -> bool:
        """Whether anything counts as relevant."""
        return bool((self.cosines + WORDS * self.coverages >= MINIMUM_SCORE).any())

    def log_h(self, slope: float, words: float) -> float:
        """log of the summed relevance of the best, as the engine takes it."""
        best = np.sort(self.cosines + words * self.coverages)[-TOP_K:]
        best = best[best >= MINIMUM_SCORE]
        return float(logsumexp(slope * (best - MINIMUM_SCORE))) if len(best) else BARE_RELEVANCE


Case = tuple[Candidates, Candidates, bool]
"""What the device finds, what the cloud finds, whether the device knows."""


def knowing_weight(cases: Sequence[Case], slope: float, words: float) -> Array:
    """The weight of the side that knows in each case."""
    differences = [
        (device.log_h(slope, words) - cloud.log_h(slope, words)) * (1 if known else -1)
        for device, cloud, known in cases
    ]
    return np.asarray(expit(differences), dtype=np.float64)


def loss(cases: Sequence[Case], slope: float, words: float) -> float:
    """Nats a case that are lost by doubting the side that knows."""
    return -float(np.log(np.clip(knowing_weight(cases, slope, words), 1e-12, 1)).mean())


def summary(cases: Sequence[Case]) -> dict[str, float]:
    """How good the constants are, and which would be best; `cosine_loss`: without shared words."""
    fit = minimize(
        lambda x: loss(cases, 100 * x[0], x[1]),
        (SLOPE / 100, WORDS),
        method="Nelder-Mead",
        bounds=((0.02, 1.2), (0.0, 1.0)),
        options={"maxfev": 120},
    )
    alone = minimize(
        lambda x: loss(cases, 100 * x[0], 0.0),
        (SLOPE / 100,),
        method="Nelder-Mead",
        bounds=((0.02, 1.2),),
        options={"maxfev": 60},
    )
    weights = knowing_weight(cases, SLOPE, WORDS)
    figures = {
        "cases": len(cases),
        "likeliest_slope": 100 * fit.x[0],
        "likeliest_words": fit.x[1],
        "least_loss": fit.fun,
        "least_cosine_loss": alone.fun,
        "loss": loss(cases, SLOPE, WORDS),
        "mean": weights.mean(),
        "under_half": (weights < 0.5).mean(),
        "under_nine_tenths": (weights < 0.9).mean(),
        "knowing_side_finds": np.mean([(d if known else c).relevant() for d, c, known in cases]),
        "other_side_finds": np.mean([(c if known else d).relevant() for d, c, known in cases]),
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def pieces(text: str, tokenizer: Tokenizer, title: str = "") -> list[str]:
    """A text's sentences as they are embedded."""
    found = sentences([text], tokenizer)
    return [embedded_text(each.text, each.context or title) for each in found]


def two_sided(embedder: Embedder, tokenizer: Tokenizer, corpus: Texts) -> list[Case]:
    lines = (ROOT / "bench" / "two_sided.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    notes = [piece for row in rows if "note" in row for piece in pieces(row["note"], tokenizer)]
    device = Texts.of(notes, embedder)
    asked = embedder.embed([row["question"] for row in rows]).astype(np.float64)
    return [
        (
            Candidates.of(row["question"], vector, device),
            Candidates.of(row["question"], vector, corpus),
            row["side"] == "private",
        )
        for row, vector in zip(rows, asked, strict=True)
    ]


def squad(path: Path, embedder: Embedder, tokenizer: Tokenizer, corpus: Texts) -> list[Case]:
    rng = random.Random(0)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if not row["unanswerable"]]
    rows = rng.sample(rows, QUESTIONS)
    titles = {row["context"]: row["title"] for row in rows}
    texts = {context: Texts.of(pieces(context, tokenizer), embedder) for context in titles}
    asked = embedder.embed([row["question"] for row in rows]).astype(np.float64)
    cases: list[Case] = []
    for row, vector in zip(rows, asked, strict=True):
        foreign = sorted(c for c, title in titles.items() if title != row["title"])
        others = [texts[context] for context in rng.sample(foreign, CONTEXTS)]
        own = texts[row["context"]]
        for device, cloud, known in (
            (Texts.joined([own, *others]), corpus, True),
            (Texts.joined(others), Texts.joined([own, corpus]), False),
        ):
            found = [Candidates.of(row["question"], vector, side) for side in (device, cloud)]
            cases.append((found[0], found[1], known))
    return cases


def main() -> None:
    embedder, tokenizer = Embedder.load(), Tokenizer.load(ROOT / "models" / "dragon-7m")
    lines = (ROOT / "peer" / "demo_corpus.tsv").read_text(encoding="utf-8").splitlines()[1:]
    passages = [line.split("\t") for line in lines]
    public = [piece for _, title, text in passages for piece in pieces(text, tokenizer, title)]
    corpus = Texts.of(public, embedder)
    result: dict[str, object] = {"slope": SLOPE, "words": WORDS}
    result["two_sided"] = summary(two_sided(embedder, tokenizer, corpus))
    if len(sys.argv) > 1:
        result["squad"] = summary(squad(Path(sys.argv[1]), embedder, tokenizer, corpus))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
