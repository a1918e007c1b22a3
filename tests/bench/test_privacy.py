"""The audit proves what is there to be proven, and no more."""

from __future__ import annotations

import math
import random

from bench.experiments.privacy import Seen, Writer, audited
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from harness import two_sided
from harness.models import SMALL_MODEL


def answers(epsilon: float, runs: int) -> list[Seen]:
    """One bit, told truthfully with the odds e^epsilon, and its likelihood ratio."""
    chance = random.Random(3)
    seen = []
    for _ in range(runs):
        inside = chance.random() < 0.5
        truth = chance.random() < 1 / (1 + math.exp(-epsilon))
        ratio = epsilon if truth is inside else -epsilon
        seen.append(Seen(inside, ratio, epsilon, 1.0, ""))
    return seen


def test_it_proves_nearly_what_a_mechanism_reveals() -> None:
    for epsilon in (0.5, 1.0, 3.0):
        assert 0.7 * epsilon < audited(answers(epsilon, 20_000)) <= epsilon
    # What claims less than it reveals is found out.
    assert audited(answers(2.0, 2000)) > 1.0


def test_it_proves_nothing_of_a_coin() -> None:
    assert audited(answers(0.0, 2000)) <= 0.1


def test_a_budget_hides_what_is_seen_without_one() -> None:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    model = LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)
    question = two_sided.read(two_sided.QUESTIONS)[0]
    writer = Writer(model, tokenizer, question)
    keys = [bytes([number]) * 32 for number in range(20)]
    kept = [writer.write(1.0, 8, key, inside=True) for key in keys]
    told = [writer.write(math.inf, 8, key, inside=True) for key in keys]
    writer.close()
    assert all(0.0 < each.spent <= 1.0 for each in kept)
    assert all(math.isfinite(each.ratio) for each in kept)
    mean = [sum(min(each.ratio, 50.0) for each in runs) / 20 for runs in (kept, told)]
    assert mean[0] < 0.5 < 2.0 < mean[1]
