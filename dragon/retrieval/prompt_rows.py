"""Turns retrieved passages into the rows of a side: a row for each, or all of them in one.

A model that quotes writes the passage of each row, and `NO_ANSWER` if there is none. A model that
writes in its own words has numbered passages in one row, before the conversation. Each side numbers
its passages without knowing the other's: the device from 1, the cloud from one more than the most
that a side may use. That number is part of the request, so neither side learns how many passages
the other has found, and no number stands for two passages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from dragon.inference.rows import Begins, Quote, Row
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.query_parsing import plain
from dragon.retrieval.relevance import BARE_RELEVANCE, Hit
from dragon.sampling.role import Role

_SPACE = re.compile(r"\s+(?=([-*•–]|\d{1,2}[.)])\s)?")  # its group: an entry of a list follows


class Answers(StrEnum):
    """How models, and experiments with them, answer."""

    LINES = "lines"  # the line that answers, to whose words the built-in model is held
    QUOTES = "quotes"  # a row per sentence, to whose words the model is held
    WORDS = "words"  # numbered passages in one row, from which it writes in its own words
    ROWS = "rows"  # a row per sentence, from which it writes freely

    @classmethod
    def of(cls, setting: str | None, *, quotes: bool) -> Answers:
        """The configured value, or else what the model's configuration says."""
        return cls(setting) if setting else cls.QUOTES if quotes else cls.WORDS

    @property
    def one_row(self) -> bool:
        """Whether everything found goes in one row."""
        return self in (Answers.WORDS, Answers.LINES)

    @property
    def quotes(self) -> bool:
        """Whether an answer has the words of passages, and no others."""
        return self in (Answers.QUOTES, Answers.LINES)

    @property
    def passages(self) -> int:
        """How many passages a side uses by default."""
        return {Answers.WORDS: 5, Answers.LINES: 1}.get(self, 2)

    def on(self, *, raw: bool) -> Answers:
        """How to answer a prompt: a `raw` one, a text to continue, has one row per passage."""
        return Answers.ROWS if self.continues(raw=raw) else self

    def continues(self, *, raw: bool) -> bool:
        """Whether a prompt is a text to continue, so that passages count by their cosine."""
        return raw and self is not Answers.QUOTES


NO_ANSWER = "I found no direct answer."
INSTRUCTION = (
    "Answer the last question from the passages below, in your own words. Cite the passages that "
    "you use by their numbers, as in [1] or [2] [3]. If they do not answer the question, say so."
)
NOTHING_FOUND = (
    "No passage was found for the last question. Answer it from the conversation, or say that you "
    "do not know."
)

H = TypeVar("H", bound=Hit)


def bare_row(
    tokenizer: Tokenizer, *, raw: bool, quotes: bool, begins: Begins = Begins.TURNS
) -> Row:
    quoted = quotes_of(tokenizer, [NO_ANSWER]) if quotes and not raw else ()
    return Row(tuple(tokenizer.bare_row(raw=raw, begins=begins)), BARE_RELEVANCE, quotes=quoted)


def quotes_of(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Quote, ...]:
    """These texts as quotes, each in one line but for the entries of lists."""
    lines = [
        _SPACE.sub(lambda space: "\n" if space[1] and "\n" in space[0] else " ", text.strip())
        for text in texts
    ]
    return tuple(
        Quote(tuple(tokenizer.encode(line)), tuple(tokenizer.encode(f" {line}"))) for line in lines
    )


def document_rows(
    tokenizer: Tokenizer,
    passages: Sequence[H],
    room: int,
    *,
    raw: bool,
    quotes: bool,
    begins: Begins = Begins.TURNS,
    premise: Sequence[int] = (),
) -> tuple[list[Row], list[H]]:
    """The rows of the passages that fit in `room` tokens each, and these passages.

    The bare row if none fits. Passages are quoted after the `premise`, the tokens that the answer
    begins with; if none fits, the premise is the whole answer.
    """
    rows, kept = [], []
    for passage in passages:
        tokens = tokenizer.document_row(passage.text, raw=raw, begins=begins)
        if len(tokens) <= room:
            row = Row(tuple(tokens), passage.relevance, passage.document, vector=passage.vector)
            quoted = quotes_of(tokenizer, [passage.text]) if quotes and not raw else ()
            if premise:
                quoted = tuple(Quote((*premise, *each.later), each.later) for each in quoted)
            rows.append(replace(row, quotes=quoted))
            kept.append(passage)
    if not rows:
        bare = bare_row(tokenizer, raw=raw, quotes=quotes, begins=begins)
        begun = (Quote(tuple(premise), tuple(premise)),)
        rows = [replace(bare, quotes=begun) if premise and bare.quotes else bare]
    return rows, kept


def first_number(side: Role, top_k: int) -> int:
    """The number of a side's first passage if each side may use `top_k`."""
    return 1 if side is Role.DEVICE else 1 + top_k


def context_row(
    tokenizer: Tokenizer,
    passages: Sequence[H],
    room: int,
    first: int,
    begins: Begins = Begins.TURNS,
) -> tuple[Row, list[H]]:
    """A row of the best passages that `room` tokens hold, numbered from `first`, and these."""
    kept = list(passages)
    while kept:
        tokens = tokenizer.document_row(prompt(kept, first), begins=begins)
        if len(tokens) <= room:
            return Row(tuple(tokens), kept[0].relevance), kept
        kept.pop()
    return nothing_found(tokenizer, begins), []


def nothing_found(tokenizer: Tokenizer, begins: Begins = Begins.TURNS) -> Row:
    row = tokenizer.document_row(NOTHING_FOUND, begins=begins)
    return Row(tuple(row), BARE_RELEVANCE)


def prompt(passages: Sequence[Hit], first: int) -> str:
    numbered = [
        f"[{number}] {', '.join(filter(None, (passage.title, passage.context)))}: {passage.text}"
        for number, passage in enumerate(passages, first)
    ]
    return "\n\n".join([INSTRUCTION, *numbered])


# A text to continue: passages count by their cosine with it, and later with what has been written.


# An embedder cuts long texts at the end, but the end is what is to be continued.
RECENT_CHARACTERS = 600
RECENT_TOKENS = 96


def recent(text: str) -> str:
    """The end of a text, which passages are compared with."""
    return plain(text)[-RECENT_CHARACTERS:]


def continuing(embedder: TextEmbedder, text: str, hits: Sequence[H], slope: float) -> list[H]:
    """Weigh hits by how they may continue a text, not by how they answer it; nearest first.

    Relevance is `slope` nats per unit of cosine, and 0 if they have nothing in common, so that a
    side with a passage counts more than a side with the bare row.
    """
    unknown = [hit.text for hit in hits if hit.vector is None]
    asked, *rest = embedder.embed([recent(text), *unknown])
    embedded = iter(rest)
    weighed = []
    for hit in hits:
        vector = next(embedded) if hit.vector is None else hit.vector
        nats = slope * max(0.0, float(vector @ asked))
        weighed.append(replace(hit, relevance=nats, vector=vector))
    return sorted(weighed, key=lambda hit: -hit.relevance)


def rescoring(
    embedder: TextEmbedder,
    tokenizer: Tokenizer,
    question: str,
    rows: Sequence[Row],
    every: int,
    slope: float,
) -> Rescoring | None:
    """Re-score rows every `every` tokens, by the cosine with question and latest text together.

    What the running text adds to the cosine adds `slope` times as much to a row's relevance, nats;
    a row without a vector keeps its relevance. Returns None if nothing would change: `every` is 0,
    or no row has a vector. Each call embeds a text, so it runs on the engine's thread.
    """
    if not every or all(row.vector is None for row in rows):
        return None

    (asked,) = embedder.embed([recent(question)])

    def rescored(text: Sequence[int]) -> list[float]:
        running = f"{recent(question)} {tokenizer.decode(text[-RECENT_TOKENS:])}"
        vector = embedder.embed([running])[0]
        return [
            row.relevance
            if row.vector is None
            else row.relevance + slope * float(row.vector @ (vector - asked))
            for row in rows
        ]

    return Rescoring(every, rescored)
