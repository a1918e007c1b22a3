"""Packs examples into rows of fixed length; runs in a process of its own, without torch."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from itertools import count
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from training.data.examples import Example, ExampleSource, Part, Role
from training.data.sources import open_sources
from training.model.hints import NO_HINT, Hints
from training.stages import read_stages, stage_at

Rows = tuple[np.ndarray, np.ndarray]

ROW = 512
CONTEXT_SAMPLE = 0.05
"""Share of document and question tokens that are predicted at all: a cheap small weight."""
WEIGHTS = {Role.CONTEXT: 0.2, Role.ANSWER: 0.3, Role.TEXT: 0.3, Role.QUOTE: 1.0}
FIRST_TOKENS, FIRST_WEIGHT = 4, 4.0
_PAD_ROOT = -1


@dataclass
class Piece:
    """An encoded example, ready to be put into a row."""

    tokens: list[int]
    targets: list[int]
    weights: list[float]
    positions: list[int]
    branches: list[int]
    answers: list[int]
    hints: Hints


def encode_chain(
    parts: list[Part], tokenizer: Tokenizer, rng: random.Random
) -> tuple[list[int], list[float], list[int]]:
    """Token ids of a chain of parts, the weight of predicting each, and whether it is an answer."""
    tokens: list[int] = []
    weights: list[float] = []
    answers: list[int] = []
    for part in parts:
        ids = tokenizer.encode(part.text, add_special_tokens=False).ids
        tokens += ids
        base = WEIGHTS[part.role]
        if part.role is Role.ANSWER:
            weights += [FIRST_WEIGHT if i < FIRST_TOKENS else base for i in range(len(ids))]
        elif part.role in (Role.TEXT, Role.QUOTE):
            weights += [base] * len(ids)
        else:
            weights += [base if rng.random() < CONTEXT_SAMPLE else 0.0 for _ in ids]
        answers += [int(part.role in (Role.ANSWER, Role.QUOTE))] * len(ids)
    return tokens, weights, answers


def encode(example: Example, tokenizer: Tokenizer, rng: random.Random, limit: int) -> Piece | None:
    """Encode an example; branches that do not fit are left out."""
    piece = Piece([], [], [], [], [], [], Hints())
    root = encode_chain(example.root, tokenizer, rng)
    root_ids = root[0] if example.branches else []
    if example.branches and len(root[0]) > limit - 20:
        return None
    chains = [(0, 0, root)]
    used = len(root[0])
    for number, parts in enumerate(example.branches, start=1):
        chain = encode_chain(parts, tokenizer, rng)
        if used + len(chain[0]) <= limit:
            chains.append((number, len(root[0]), chain))
            used += len(chain[0])
    for number, offset, (tokens, weights, answers) in chains:
        tokens, weights, answers = tokens[:limit], weights[:limit], answers[:limit]
        size = len(tokens)
        if not size:
            continue
        piece.tokens += tokens
        piece.targets += [*tokens[1:], 0]
        piece.weights += [*weights[1:], 0.0]
        piece.answers += [*answers[1:], 0]
        piece.positions += range(offset, offset + size)
        piece.branches += [number] * size
        if number == 0:
            piece.hints.add_document(tokens, tokenizer)
        else:
            piece.hints.add_branch(tokens, answers, root_ids, tokenizer)
    return piece if sum(piece.weights) > 0 else None


def pack(pieces: list[Piece], rows: int) -> tuple[np.ndarray, np.ndarray, list[Piece]]:
    """Fill rows first-fit, longest first; returns integers, weights, and what was left over."""
    grid = np.zeros((9, rows, ROW), dtype=np.int32)
    grid[3] = _PAD_ROOT
    grid[6:] = NO_HINT
    weights = np.zeros((rows, ROW), dtype=np.float32)
    filled = [0] * rows
    left: list[Piece] = []
    for number, piece in enumerate(sorted(pieces, key=lambda p: -len(p.tokens))):
        size = len(piece.tokens)
        row = next((r for r in range(rows) if filled[r] + size <= ROW), None)
        if row is None:
            left.append(piece)
            continue
        at = slice(filled[row], filled[row] + size)
        grid[0, row, at] = piece.tokens
        grid[1, row, at] = piece.targets
        grid[2, row, at] = piece.positions
        grid[3, row, at] = number
        grid[4, row, at] = piece.branches
        grid[5, row, at] = piece.answers
        grid[6:, row, at] = piece.hints.shifted(filled[row])
        weights[row, at] = piece.weights
        filled[row] += size
    return grid, weights, left


@dataclass(frozen=True)
class Plan:
    """What the producer of rows needs to know; `steps` were done before."""

    data: Path
    work: Path
    tokenizer: Path
    rows: int
    processes: int
    seed: int
    steps: int


def produce(queue: Queue[Rows], plan: Plan) -> None:
    """Fill the queue with packed rows for ever, as the stages say."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rng = random.Random(plan.seed)
    tokenizer = Tokenizer.from_file(str(plan.tokenizer))
    facts, prose = open_sources(plan.data, plan.work, "train")
    prose.use_vocabulary(tokenizer.get_vocab())
    source = ExampleSource(facts, prose)
    stages = read_stages()
    buffer: list[Piece] = []
    for made in count():
        mixture = stage_at(stages, plan.steps + made // plan.processes).mixture
        while sum(len(piece.tokens) for piece in buffer) < plan.rows * ROW * 1.15:
            piece = encode(source.draw(rng, mixture), tokenizer, rng, ROW)
            if piece is not None:
                buffer.append(piece)
        grid, weights, buffer = pack(buffer, plan.rows)
        queue.put((grid, weights))
