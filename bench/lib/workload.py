"""What experiments ask: real instructions, and windows of WikiText-2 as the documents of each side.

The prompts of `prompts.jsonl` in order, instruction and input as one user message. For each, the
four windows of 64 tokens nearest to it by the embedder, out of a sample, go to device and cloud in
turn: two complementary documents a side (DRAGON, arXiv 2504.11197, section 7.2). None of this text
is stored.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragon.inference.tokenizer import Tokenizer
from dragon.models import EMBEDDED_WRITER
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.relevance import SLOPE, probability
from harness.fixed_documents import Query
from harness.reference import Passage
from harness.services import ROOT

DATA = ROOT.parent / "shared" / "data"
WINDOW_TOKENS = 64
DOCUMENTS_A_SIDE = 2
# Characters that hold a window whatever the tokenizer.
_WINDOW_CHARACTERS = 16 * WINDOW_TOKENS
_NEUTRAL = 0.3  # the cosine of a window that is as likely about a prompt as not


def add_options(parser: argparse.ArgumentParser, prompts: int) -> None:
    """The options that `build` reads; `prompts` is the default number of prompts."""
    parser.add_argument("--prompts", type=int, default=prompts)
    parser.add_argument("--data", type=Path, default=DATA, help="prompts.jsonl, wikitext-2/")
    parser.add_argument("--eta", type=float, help="the device's weight; default: as documents fit")
    parser.add_argument("--windows", type=int, default=1000, help="that documents are found among")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model to measure, by default the built-in one."""
    parser.add_argument(
        "--model", default=str(EMBEDDED_WRITER), help="a directory, hub name or .gguf file"
    )


def read_prompts(path: Path, count: int) -> list[str]:
    """The first `count` user messages."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    parts = [(row["instruction"], row["instances"][0]["input"]) for row in rows]
    return ["\n\n".join(part for part in pair if part) for pair in parts]


def read_windows(path: Path, tokenizer: Tokenizer, count: int, seed: int = 0) -> list[str]:
    """Windows of 64 tokens that begin at words drawn at random from a text file in xz."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    chance = random.Random(seed)
    windows = []
    for _ in range(count):
        start = text.index(" ", chance.randrange(len(text) - 2 * _WINDOW_CHARACTERS)) + 1
        piece = text[start : start + _WINDOW_CHARACTERS]
        spans = tokenizer.offsets(piece)
        windows.append(piece[: spans[WINDOW_TOKENS - 1][1]])
    return windows


def match(
    prompts: Sequence[str],
    windows: Sequence[str],
    embedder: Embedder,
    documents: int = DOCUMENTS_A_SIDE,
) -> list[Query]:
    """Each prompt with its nearest windows: the first, third, .. on the device, the rest above."""
    cosines = embedder.embed(prompts) @ embedder.embed(windows).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, : 2 * documents]
    queries = []
    for prompt, scores, order in zip(prompts, cosines, best, strict=True):
        passages = [
            Passage(windows[i], probability(SLOPE * (float(scores[i]) - _NEUTRAL))) for i in order
        ]
        queries.append(Query(prompt, tuple(passages[::2]), tuple(passages[1::2])))
    return queries


def weighed(query: Query, eta: float) -> Query:
    """The same documents, all of one relevance a side: the device's weight is `eta`."""
    return Query(
        query.text,
        tuple(Passage(passage.text, 0.5) for passage in query.device),
        tuple(Passage(passage.text, 1.0 - eta) for passage in query.cloud),
    )


def build(
    options: argparse.Namespace, model: str | Path, documents: int = DOCUMENTS_A_SIDE
) -> list[Query]:
    """The queries of an experiment, `documents` a side; `model` is whose tokens count."""
    prompts = options.data / "prompts.jsonl"
    train = options.data / "wikitext-2" / "train.txt.xz"
    for path in (prompts, train):
        if not path.is_file():
            raise SystemExit(f"there is no {path}: give --data a folder that has it")
    windows = read_windows(train, Tokenizer.load(model), options.windows)
    queries = match(read_prompts(prompts, options.prompts), windows, Embedder.load(), documents)
    return queries if options.eta is None else [weighed(each, options.eta) for each in queries]
