"""Exact-match evaluation.

Greedy decoding writes an answer word for word exactly when every answer token is the most likely
one given the true prefix, so one forward pass over packed rows measures generation.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.data.batches import to_batch
from training.data.corpus import SQUAD_DEV, grounded_questions, split_sentences
from training.data.examples import Example, Part, Role, turn
from training.data.packing import ROW, Piece, encode, pack
from training.data.sources import open_facts
from training.data.special import DOC
from training.model.model import PackedQwen2

_ROWS = 8


@dataclass
class Asked:
    """A document, a question, and the right answer (``text`` must stand in the reply)."""

    document: str
    question: str
    answer: str


@dataclass
class Result:
    """How many answers were right, and which were wrong."""

    right: int = 0
    total: int = 0
    wrong: list[Asked] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{100 * self.right / max(1, self.total):.1f}% ({self.total})"


def fact_questions(split: str, count: int, seed: int = 7) -> list[Asked]:
    """Questions on generated documents: ``train``, ``phrasing`` or ``relation``."""
    facts = open_facts(split, None)
    distractors = open_facts("train", None)
    rng = random.Random(seed)
    asked: list[Asked] = []
    while len(asked) < count:
        doc = facts.document(rng, 300)
        fact = rng.choice(doc.facts)
        question = facts.question(doc, fact, rng)
        if question is None:
            continue
        text = doc.text
        if len(doc.facts) < 3 and "\n" not in text:
            other = distractors.document(rng, 160).text.replace("\n", " ")
            text = rng.choice((f"{text} {other}", f"{other} {text}"))
        asked.append(Asked(text, question, fact.sentence))
    return asked


def hand_written(path: Path) -> list[Asked]:
    """Hand-written notes and passages: JSON lines of document, question and gold string."""
    asked: list[Asked] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        units = [u.removeprefix("- ") for u in row["document"].split("\n")]
        sentences = [s for unit in units for s in split_sentences(unit)]
        holder = next(s for s in sentences if row["gold"] in s)
        asked.append(Asked(row["document"], row["question"], holder))
    return asked


def squad_questions(data: Path, count: int, seed: int = 3) -> list[Asked]:
    """Real questions over three neighbouring sentences, one of which holds the answer."""
    rng = random.Random(seed)
    rows = grounded_questions(data, SQUAD_DEV)
    rng.shuffle(rows)
    asked: list[Asked] = []
    for row in rows:
        sentences = split_sentences(row.context)
        holders = [i for i, s in enumerate(sentences) if row.answer in s]
        if len(sentences) < 3 or len(holders) != 1:
            continue
        start = min(max(0, holders[0] - rng.randint(0, 2)), len(sentences) - 3)
        chosen = sentences[start : start + 3]
        if sum(map(len, chosen)) > 620:
            continue
        asked.append(Asked(" ".join(chosen), row.question, sentences[holders[0]]))
        if len(asked) == count:
            break
    return asked


@torch.no_grad()
def exact_match(model: PackedQwen2, tokenizer: Tokenizer, asked: list[Asked]) -> Result:
    """Share of answers that greedy decoding writes word for word."""
    rng = random.Random(0)
    pieces: list[Piece] = []
    owner: dict[int, Asked] = {}
    for item in asked:
        root = [Part(DOC + item.document, Role.CONTEXT)]
        piece = encode(Example(root, [turn(item.question, item.answer)]), tokenizer, rng, ROW)
        if piece is not None and any(piece.answers):
            pieces.append(piece)
            owner[id(piece)] = item
    result = Result()
    while pieces:
        take, pieces = pieces[: _ROWS * 4], pieces[_ROWS * 4 :]
        grid, weights, left = pack(take, _ROWS)
        placed = sorted(take, key=lambda piece: -len(piece.tokens))
        pieces = left + pieces
        batch = to_batch(grid, weights)
        with torch.autocast(batch.tokens.device.type, torch.bfloat16):
            hidden = model(batch.tokens, batch.positions, batch.allowed)
            wanted = batch.answers.bool()
            best = model.logits(hidden[wanted]).argmax(-1)
        hit = torch.zeros_like(batch.tokens)
        hit[wanted] = (best == batch.targets[wanted]).long()
        counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        roots = torch.from_numpy(grid[3]).to(batch.tokens.device)
        for number in set(roots.flatten().tolist()):
            if number >= 0:
                chosen = (roots == number) & wanted
                counts[number] = [int(hit[chosen].sum()), int(chosen.sum())]
        for number, (good, all_) in counts.items():
            item = owner[id(placed[number])]
            result.total += 1
            if good == all_:
                result.right += 1
            else:
                result.wrong.append(item)
    return result
