"""Acceptances measured on a model's distributions: of Algorithm 1, and under shared noise.

Two sides in one process write joint answers to questions of the two-sided benchmark, each with two
of its notes as documents, and never end. From the pair of distributions of each position any number
of sequences can then be drawn: whether Algorithm 1 takes each side's draft, and whether `coupled`
does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dragon.inference.backends.backend import Backend
from dragon.inference.choice import ModelChoice
from dragon.inference.decoder import Decoder, step
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.protocol.rules.speculative import algorithm1_draft, algorithm1_target
from dragon.retrieval.prompt_rows import document_rows
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from harness.reference import Passage
from harness.serve import never_end
from harness.two_sided import QUESTIONS, read

Acceptance = list[tuple[bool, bool]]


@dataclass(frozen=True)
class Acceptances:
    """Sequences of (device accepted, cloud accepted) per token, in both ways of drafting."""

    speculative: list[Acceptance]
    coupled: list[Acceptance]

    @classmethod
    def load(cls, path: Path) -> Acceptances:
        """What `save` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(*([[(bool(d), bool(c)) for d, c in one] for one in kind] for kind in found))

    def save(self, path: Path) -> None:
        """As JSON, 0 or 1 for each side of each token."""
        kinds = [
            [[[int(d), int(c)] for d, c in one] for one in kind]
            for kind in (self.speculative, self.coupled)
        ]
        path.write_text(json.dumps(kinds), encoding="utf-8")


def record(
    answers: int, tokens: int, sequences: int, temperature: float, choice: ModelChoice
) -> Acceptances:
    """`sequences` of `tokens` tokens each, from `answers` of a model in turn.

    At temperature 0 an answer has one sequence.
    """
    torch.set_num_threads(1)
    tokenizer, model = choice.load()
    never_end(model, tokenizer)
    pairs = [_answer(model, tokenizer, n, tokens, temperature) for n in range(answers)]
    count = sequences if temperature else answers
    drawn = [
        _draw(pairs[seed % answers], Sampling(temperature, seed=seed)) for seed in range(count)
    ]
    return Acceptances([one for one, _ in drawn], [other for _, other in drawn])


def algorithm_1(device: Side, cloud: Side, sampling: Sampling, position: int) -> tuple[bool, bool]:
    """Which drafts Algorithm 1 accepts."""
    own = algorithm1_draft(Role.DEVICE, device, sampling, position)
    remote = algorithm1_draft(Role.CLOUD, cloud, sampling, position)
    token = algorithm1_target((own, remote), device, cloud, sampling, position)
    return own == token, remote == token


def _draw(pairs: Sequence[tuple[Side, Side]], sampling: Sampling) -> tuple[Acceptance, Acceptance]:
    coupled, speculative = [], []
    for position, (device, cloud) in enumerate(pairs):
        target = mixture.target(device, cloud, sampling, position)
        first, second = (mixture.draft(s, sampling, position) for s in (device, cloud))
        coupled.append((first == target, second == target))
        speculative.append(algorithm_1(device, cloud, sampling, position))
    return speculative, coupled


def _answer(
    model: Backend, tokenizer: Tokenizer, number: int, tokens: int, temperature: float
) -> list[tuple[Side, Side]]:
    """The distributions of both sides along one answer."""
    questions = [question for question in read(QUESTIONS) if question.note]
    notes = [questions[(number + i) % len(questions)].note or "" for i in range(4)]
    conversation = tokenizer.conversation([Message("user", questions[number].text)])
    sides = []
    for own in (notes[:2], notes[2:]):
        rows, _ = document_rows(
            tokenizer, [Passage(note, 0.5) for note in own], model.context, raw=False, quotes=False
        )
        sides.append(Decoder(model, rows, conversation, limit=tokens))
        assert sides[-1].acquire()
        sides[-1].prefill()
    sampling = Sampling(temperature, seed=number)
    text: list[int] = []
    pairs = []
    for position in range(tokens):
        work = Work(max(0, position - 1), tuple(text[-1:]), 1, 0)
        device, cloud = (step(model, [side], [work])[0][0] for side in sides)
        pairs.append((device, cloud))
        text.append(mixture.target(device, cloud, sampling, position))
    for side in sides:
        side.release()
    return pairs
