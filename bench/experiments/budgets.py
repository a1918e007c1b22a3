"""What does a budget cost? `python -m bench.budgets --wikitext PATH [--epsilons 1,4,16]`

Perplexity of the 64 tokens that follow a query in WikiText-2 (`bench.perplexity` says how windows
and passages are chosen), by the budget of an answer of that length. The nearest passages are split:
the cloud has the first `--documents`, the device the next. Each token is predicted by what
the product would draw it from: both sides' distributions as they are on the wire, and the mixture
of `dragon.sampling.privacy`, which pays for the true token's predecessor as an answer would.

- epsilon 0: the device's passages have no part; an infinite one: all of it, and no bound.
- A token that the wire has cut away would be impossible, and one of them the end of every figure.
  One draw in a thousand is from all tokens alike.

`share` is the mean lambda, `spent` the mean epsilon of a window's tokens.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.experiments.perplexity import jackknife, perplexity
from bench.experiments.privacy import log_p, unbounded
from bench.lib import report, wikitext
from bench.lib.wikitext import Corpus, Passage
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, Decoding, step
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.messages import Work
from dragon.retrieval.calibration import Window, spread
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.relevance import relevance
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import Bounded, Budget, bare_of, bounded
from harness.models import SMALL_MODEL

TOKENS = 64
_ANY = 1e-3
Result = dict[str, Any]


class Predictor:
    """Both sides of one window, teacher-forced."""

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        window: Window,
        own: Sequence[Passage],
        public: Sequence[Passage],
    ) -> None:
        self._vocabulary = tokenizer.vocab_size
        self._text, self._scored = window.target[:TOKENS], window.scored[:TOKENS]
        bare = Row(tuple(tokenizer.bare_row(raw=True)), -math.inf)

        def rows(passages: Sequence[Passage]) -> list[Row]:
            return [
                Row(tuple(tokenizer.document_row(each.text, raw=True)), relevance(each.cosine))
                for each in passages
            ]

        device = Decoder(model, [*rows(own), bare], window.query, Decoding(referred=True))
        cloud = Decoder(model, rows(public), window.query)
        self._pairs = list(
            zip(self._forced(model, device), self._forced(model, cloud), strict=True)
        )

    def _forced(self, model: LanguageModel, decoder: Decoder) -> list[Side]:
        """A side's distributions of the text's tokens."""
        assert decoder.acquire()
        decoder.prefill()
        count = len(self._text) - 1
        works = Work(0, (), 1, 0), Work(0, self._text[:-1], count, 0)
        sides = [side for work in works for side in step(model, [decoder], [work])[0]]
        decoder.release()
        return sides

    def predict(self, epsilon: float) -> tuple[float, float, float]:
        """Log likelihood of the scored tokens, nats; the mean lambda; the epsilon spent."""
        sampling, likelihood, shares = Sampling(), 0.0, 0.0
        bound = 0.0 < epsilon < math.inf
        budget = Budget.of(epsilon, TOKENS) if bound else Budget(2.0, 0.0, 0.0)
        for token, scored, (own, cloud) in zip(self._text, self._scored, self._pairs, strict=True):
            if math.isinf(epsilon):
                target: Bounded = unbounded(own.wire, cloud.wire)
            else:
                order, allowance = budget.order, budget.allowance
                bare = bare_of(own)
                target = bounded(own.wire, bare, cloud.wire, sampling, order, allowance)
                budget.charge(target.cost)
            shares += target.share
            if scored:
                chance = math.exp(log_p(target, token))
                likelihood += math.log((1.0 - _ANY) * chance + _ANY / self._vocabulary)
        return likelihood, shares / len(self._text), budget.epsilon

    @property
    def tokens(self) -> int:
        """The number of scored tokens."""
        return sum(self._scored)


def run(options: argparse.Namespace) -> list[Result]:
    """A row a budget."""
    tokenizer = Tokenizer.load(options.model)
    model = LanguageModel.load(options.model, tokenizer.vocab_size)
    lines = wikitext.read(options.wikitext / "train.txt.xz")
    corpus = Corpus(wikitext.passages(lines), Embedder.load())
    lines = wikitext.read(options.wikitext / "valid.txt")
    k = options.documents
    predictors = []
    windows = wikitext.windows(lines, tokenizer, options.window)
    for window in spread(windows, options.windows):
        found = corpus.search(tokenizer.decode(window.query), 2 * k)
        predictors.append(Predictor(model, tokenizer, window, found[k:], found[:k]))
        print(f"window {len(predictors)} of {options.windows}", end="\r", flush=True)
    tokens = [each.tokens for each in predictors]
    figure = partial(perplexity, key=("", 0))
    rows = []
    for epsilon in (0.0, *map(float, options.epsilons.split(",")), math.inf):
        seen = [each.predict(epsilon) for each in predictors]
        outcomes = [{("", 0): likelihood} for likelihood, _, _ in seen]
        rows.append(
            {
                "epsilon": epsilon if math.isfinite(epsilon) else "no bound",
                "perplexity": round(figure(outcomes, tokens), 2),
                "stderr": round(jackknife(figure, outcomes, tokens) or 0.0, 2),
                "share": round(sum(share for _, share, _ in seen) / len(seen), 4),
                "spent": round(sum(spent for *_, spent in seen) / len(seen), 3),
                "tokens": sum(tokens),
            }
        )
    return rows


def main() -> None:
    """Measure, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wikitext", type=Path, required=True, help="train.txt.xz, valid.txt")
    parser.add_argument("--epsilons", default="1,4,16,64")
    parser.add_argument("--documents", type=int, default=2, help="a side")
    parser.add_argument("--windows", type=int, default=32)
    parser.add_argument("--window", type=int, default=512, help="tokens a window")
    parser.add_argument("--model", default=SMALL_MODEL, help="a directory or hub name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = run(options)
    report.section("budgets", rows, title=f"budgets-{Path(options.model).name}")
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
