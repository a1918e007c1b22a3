"""Does a budget hold what it promises? `python -m bench.privacy [--epsilons 1,4] [--runs 2000]`

Each run continues an answer to a private question of `bench.two_sided` that was begun in the
words of the note, up to the string that is asked for: either with that note as its passage or
without any, by a coin, as a device with `dragon.epsilon` does (a slow loop over the decoders of
both sides, of which the cloud's has found nothing). From its beginning the embedded model would say
without passages that it does not know, which leaves them nothing to say. The attacker sees every
token, knows the question, both models, the public passages and the passage in question, and
computes how much likelier the text is with it than without: no attacker on the link can do better.
On half of the runs it chooses a threshold, on the other half it is measured: `audited` is the
epsilon that its true and false positive rates prove, with 95 % confidence (Clopper and Pearson's
bounds). It must not exceed `claimed`. Without one (`none`) the same attacker shows that it can find
passages. `quoted` is how often an answer from the note has the string that was asked for.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.stats import beta

from bench.lib import report
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder, Decoding, step
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import DELTA, Bounded, Budget, bare_of, bounded, drawn
from dragon.sampling.quantized import WireDistribution
from harness import two_sided
from harness.models import SMALL_MODEL
from harness.two_sided import Question

_CONFIDENCE = 0.95
_NOTES = f"""`spent` is the mean epsilon of the answers written with a passage, `claimed` their
bound, `audited` what the attacker proves of it; all at delta {DELTA:g}. `share` is the mean lambda.
`found` is how often the attacker is right, 0.5 for a coin."""


@dataclass(frozen=True)
class Seen:
    """A run as the attacker sees it: log P(text | with the passage) - log P(text | without)."""

    inside: bool
    ratio: float
    spent: float
    share: float
    text: str


class Writer:
    """Answers one question, with its private passage or without."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, question: Question) -> None:
        self._model = model
        self._tokenizer = tokenizer
        text = question.note or ""
        *_, begun = re.split(r"[.:!?]\s+|\n", text[: _place(question)])
        conversation = tokenizer.conversation([Message("user", question.text)])
        conversation += tokenizer.encode(begun)
        bare = Row(tuple(tokenizer.bare_row()), -math.inf)
        note = Row(tuple(tokenizer.document_row(text)), 0.0, "note")
        self._sides = (
            Decoder(model, [note, bare], conversation, Decoding(referred=True)),
            Decoder(model, [replace(bare, relevance=0.0)], conversation),
        )
        for side in self._sides:
            side.acquire()
            side.prefill()

    def close(self) -> None:
        """Free its slots."""
        for side in self._sides:
            side.release()

    def write(self, epsilon: float, tokens: int, key: bytes, *, inside: bool) -> Seen:
        """One answer with the noise of this key; an infinite epsilon is no bound."""
        sampling, text = Sampling(), list[int]()
        budget = Budget(2.0, math.inf, math.inf)
        if math.isfinite(epsilon):
            budget = Budget.of(epsilon, tokens)
        ratio, shares = 0.0, []
        while len(text) < tokens and not (text and text[-1] in self._tokenizer.end_ids):
            own, cloud = self._after(text)
            bare = bare_of(own)
            if math.isfinite(epsilon):
                order, allowance = budget.order, budget.allowance
                target = bounded(own.wire, bare, cloud.wire, sampling, order, allowance)
                without = bounded(bare, bare, cloud.wire, sampling, order, 0.0)
                budget.charge(target.cost)
            else:
                target, without = (unbounded(wire, cloud.wire) for wire in (own.wire, bare))
            shares.append(target.share)
            drawn_from = target if inside else without
            token = drawn(drawn_from.ids, drawn_from.log_p, key, len(text))
            ratio += log_p(target, token) - log_p(without, token)
            text.append(token)
        said = self._tokenizer.decode(text)
        return Seen(inside, ratio, budget.epsilon, sum(shares) / len(shares), said)

    def _after(self, text: Sequence[int]) -> list[Side]:
        work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
        return [step(self._model, [side], [work])[0][0] for side in self._sides]


def _place(question: Question) -> int:
    """The place in the note of the string that is asked for; 0 or less without one."""
    return max((question.note or "").find(gold) for gold in question.gold)


def unbounded(device: WireDistribution, cloud: WireDistribution) -> Bounded:
    """The even mixture of both sides, as it is without a budget."""
    ids = np.union1d(device.ids, cloud.ids)
    chances = sum(wire.at(ids, wire.weights / wire.total) for wire in (device, cloud))
    return Bounded(ids, np.log(chances / 2.0), 1.0, 0.0)


def log_p(target: Bounded, token: int) -> float:
    """The log-probability of a token that may be impossible."""
    place = int(np.searchsorted(target.ids, token))
    known = place < len(target.ids) and target.ids[place] == token
    return float(target.log_p[place]) if known else -math.inf


def audited(seen: Sequence[Seen]) -> float:
    """The largest epsilon that a threshold on the ratio proves at `DELTA`, at least 0."""
    first, second = seen[::2], seen[1::2]
    proven = 0.0
    for sign in (1.0, -1.0):  # evidence for the passage, and against it
        chosen = max(
            {sign * each.ratio for each in first}, key=lambda at: _epsilon(first, sign, at)
        )
        proven = max(proven, _epsilon(second, sign, chosen))
    return proven


def _epsilon(seen: Sequence[Seen], sign: float, threshold: float) -> float:
    hits = [
        [sign * each.ratio >= threshold for each in seen if each.inside is inside]
        for inside in (sign > 0, sign < 0)
    ]
    (true, positives), (false, negatives) = ((sum(each), len(each)) for each in hits)
    doubt = (1.0 - _CONFIDENCE) / 2.0
    low = float(beta.ppf(doubt, true, positives - true + 1)) if true else 0.0
    high = float(beta.ppf(1.0 - doubt, false + 1, negatives - false)) if false < negatives else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else -math.inf


def measure(options: argparse.Namespace, epsilon: float) -> dict[str, Any]:
    """A row: all questions in turn, a coin a run."""
    tokenizer = Tokenizer.load(SMALL_MODEL)
    model = LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)
    every = two_sided.read(two_sided.QUESTIONS)
    questions = [q for q in every if q.side == "private" and _place(q) > 0]
    questions = two_sided.spread(questions, options.questions)
    seen: list[Seen] = []
    quoted = 0
    for number, question in enumerate(questions):
        writer = Writer(model, tokenizer, question)
        for _ in range(number, options.runs, len(questions)):
            inside = bool(secrets.randbits(1))
            seen.append(
                writer.write(epsilon, options.tokens, secrets.token_bytes(32), inside=inside)
            )
            quoted += inside and question.answered_by(seen[-1].text)
        writer.close()
    right = [(each.ratio > 0) is each.inside for each in seen if each.ratio != 0.0]
    undecided = len(seen) - len(right)
    told = [each for each in seen if each.inside]
    claimed = math.isfinite(epsilon)
    return {
        "epsilon": epsilon if claimed else "none",
        "runs": len(seen),
        "share": round(sum(each.share for each in told) / len(told), 4),
        "spent": round(sum(each.spent for each in told) / len(told), 3) if claimed else None,
        "claimed": epsilon if claimed else None,
        "quoted": round(quoted / len(told), 3),
        "audited": round(audited(seen), 3),
        "found": round((sum(right) + undecided / 2) / len(seen), 3),
    }


def main() -> None:
    """Write, attack, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", default="1,4,16,inf", help="inf: none")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=16, help="of an answer, at most")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    epsilons = [float(each) for each in options.epsilons.split(",")]
    rows = [measure(options, epsilon) for epsilon in epsilons]
    report.section("privacy", rows, notes=_NOTES)
    print(json.dumps({"rows": rows}))
    assert all(row["claimed"] is None or row["audited"] <= row["claimed"] for row in rows)


if __name__ == "__main__":
    main()
