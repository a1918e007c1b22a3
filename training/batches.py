"""Packs examples into rows of fixed length, in a process of its own."""

from __future__ import annotations

import multiprocessing as mp
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from training.examples import Example, ExampleSource, Part, Role
from training.sources import open_sources

ROW = 256
CONTEXT_SAMPLE = 0.10
"""Share of document and question tokens that are predicted at all: a cheap small weight."""
WEIGHTS = {Role.CONTEXT: 0.5, Role.ANSWER: 1.0, Role.TEXT: 0.2}
FIRST_TOKENS, FIRST_WEIGHT = 4, 2.0
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


@dataclass
class Batch:
    """Rows for one step."""

    tokens: Tensor
    positions: Tensor
    allowed: Tensor
    targets: Tensor
    weights: Tensor
    answers: Tensor


def encode_chain(
    parts: list[Part], tokenizer: PreTrainedTokenizerFast, rng: random.Random
) -> tuple[list[int], list[float], list[int]]:
    """Token ids of a chain of parts, the weight of predicting each, and whether it is an answer."""
    tokens: list[int] = []
    weights: list[float] = []
    answers: list[int] = []
    for part in parts:
        ids = tokenizer.backend_tokenizer.encode(part.text, add_special_tokens=False).ids
        tokens += ids
        base = WEIGHTS[part.role]
        if part.role is Role.ANSWER:
            weights += [FIRST_WEIGHT if i < FIRST_TOKENS else base for i in range(len(ids))]
        elif part.role is Role.TEXT:
            weights += [base] * len(ids)
        else:
            weights += [base if rng.random() < CONTEXT_SAMPLE else 0.0 for _ in ids]
        answers += [int(part.role is Role.ANSWER)] * len(ids)
    return tokens, weights, answers


def encode(
    example: Example, tokenizer: PreTrainedTokenizerFast, rng: random.Random, limit: int
) -> Piece | None:
    """Encode an example; branches that do not fit are left out."""
    piece = Piece([], [], [], [], [], [])
    root = encode_chain(example.root, tokenizer, rng)
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
    return piece if sum(piece.weights) > 0 else None


def pack(pieces: list[Piece], rows: int) -> tuple[np.ndarray, np.ndarray, list[Piece]]:
    """Fill rows first-fit, longest first; returns integers, weights, and what was left over."""
    grid = np.zeros((6, rows, ROW), dtype=np.int32)
    grid[3] = _PAD_ROOT
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
        weights[row, at] = piece.weights
        filled[row] += size
    return grid, weights, left


def _produce(
    queue: mp.Queue[tuple[np.ndarray, np.ndarray]], data: Path, model: Path, rows: int, seed: int
) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rng = random.Random(seed)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    facts, prose = open_sources(data, "train")
    source = ExampleSource(facts, prose)
    buffer: list[Piece] = []
    while True:
        while sum(len(piece.tokens) for piece in buffer) < rows * ROW * 1.15:
            piece = encode(source.draw(rng), tokenizer, rng, ROW)
            if piece is not None:
                buffer.append(piece)
        grid, weights, buffer = pack(buffer, rows)
        queue.put((grid, weights))


def to_batch(grid: np.ndarray, weights: np.ndarray) -> Batch:
    """Tensors and the attention mask for packed rows."""
    tokens, targets, positions, roots, branches, answers = torch.from_numpy(grid).long()
    causal = torch.ones(ROW, ROW, dtype=torch.bool).tril()
    same_root = roots.unsqueeze(2) == roots.unsqueeze(1)
    same_branch = branches.unsqueeze(2) == branches.unsqueeze(1)
    in_document = (branches == 0).unsqueeze(1)
    allowed = causal & same_root & (same_branch | in_document)
    return Batch(
        tokens, positions, allowed.unsqueeze(1), targets, torch.from_numpy(weights), answers
    )


def stream(data: Path, model: Path, rows: int, seed: int) -> Iterator[Batch]:
    """Endless batches, made ahead of time by another process."""
    context = mp.get_context("spawn")
    queue: mp.Queue[tuple[np.ndarray, np.ndarray]] = context.Queue(maxsize=48)
    process = context.Process(target=_produce, args=(queue, data, model, rows, seed), daemon=True)
    process.start()
    while True:
        yield to_batch(*queue.get())
