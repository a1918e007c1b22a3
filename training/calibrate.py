"""Fit how the judge's logits become probabilities: `python -m training.calibrate`.

Questions about long documents that the judge was not trained on are searched as in the product, ten
documents at once: candidates by cosine and shared words, read among the lines around them. A
logistic regression of whether a line answers, over its logit, the share of the question's words
that only other lines have, and the cosine of the two, gives the constants of
`dragon.retrieval.relevance`. Questions about short texts, ten at once, are measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from app.documents.hits import subject
from dragon.retrieval import find, relevance
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.find import JudgedLine
from dragon.retrieval.judge import Judge
from dragon.retrieval.relevance import Hit
from training.texts import FOLDER, KEPT_APART, Text, held_out, read_file, read_texts, same

TOGETHER = 10  # texts that are searched at once: the usual wrong answer is a line of another text


@dataclass(frozen=True)
class Asked:
    """A question, the lines read for it, which of them answer, and whether its text answers it."""

    lines: Sequence[JudgedLine[Hit]]
    right: Sequence[bool]
    answered: bool

    def surely(self) -> float:
        """Log-odds that it is answered, with the constants in use; very low if no line was read."""
        return max((each.odds for each in self.lines), default=-99.0)

    def first(self) -> bool:
        odds = [each.odds for each in self.lines]
        return bool(odds) and self.right[int(np.argmax(odds))]


@dataclass(frozen=True)
class Pool:
    """Texts that are searched together: their lines as hits, and those `near` each by its id."""

    texts: Sequence[Text]
    every: Sequence[Hit]
    near: Mapping[int, Sequence[Hit]]
    reader: find.LineReader

    def read(self, question: str) -> list[JudgedLine[Hit]]:
        vector = self.reader.embedder.embed([question])
        best = find.to_read([question], find.ranked([question], vector, self.every))
        return self.reader.judged(question, best, self.near)


def pools(texts: Sequence[Text], judge: Judge, embedder: Embedder) -> Iterator[Pool]:
    """All texts, `TOGETHER` at a time."""
    for at in range(0, len(texts), TOGETHER):
        own = texts[at : at + TOGETHER]
        hits = [hit for text in own for hit in hits_of(text, embedder)]
        every = [replace(hit, id=n) for n, hit in enumerate(hits)]
        near = {hit.id: [o for o in every if o.document == hit.document] for hit in every}
        yield Pool(own, every, near, find.LineReader(judge, embedder))


def asked(
    texts: Sequence[Text], judge: Judge, embedder: Embedder, each: int, rng: random.Random
) -> Iterator[Asked]:
    """At most `each` questions per text that it answers, and half as many that it does not."""
    for pool in pools(texts, judge, embedder):
        for text in pool.texts:
            chosen = rng.sample(text.asked, min(each, len(text.asked)))
            not_there = rng.sample(text.unasked, min(max(1, each // 2), len(text.unasked)))
            for question, answer in [*chosen, *((question, "") for question in not_there)]:
                read = pool.read(question)
                right = [
                    bool(answer)
                    and line.line.document == text.name
                    and same(line.line.text, answer)
                    for line in read
                ]
                yield Asked(read, right, bool(answer))


def hits_of(text: Text, embedder: Embedder) -> list[Hit]:
    about, lines = subject(text.text), text.lines()
    vectors = embedder.embed([embedded_text(line.text, line.context) for line in lines])
    return [
        Hit(0, text.name, "", line.text, 0.0, 0.0, context=line.context, about=about, vector=vector)
        for line, vector in zip(lines, vectors, strict=True)
    ]


def fitted(questions: Sequence[Asked]) -> tuple[float, ...]:
    """Maximum-likelihood `LOGIT`, `LACKING`, `COSINE` and `BIAS`."""
    pairs = [
        (each, right)
        for question in questions
        for each, right in zip(question.lines, question.right, strict=True)
    ]
    features = np.array([(each.logit, each.lacking, each.cosine) for each, _ in pairs])
    model = LogisticRegression(C=1e4).fit(features, [right for _, right in pairs])
    return (*map(float, model.coef_[0]), float(model.intercept_[0]))


def measured(name: str, questions: Sequence[Asked]) -> None:
    """Print how often the best line answers, the area under the curve, and what thresholds do."""
    known = np.array([q.surely() for q in questions if q.answered])
    right = np.array([q.first() for q in questions if q.answered])
    near = np.array([q.surely() for q in questions if not q.answered])
    area = np.mean(known[:, None] > near[None])
    read = np.mean([any(q.right) for q in questions if q.answered])
    print(f"{name}: first {right.mean():.3f}, read {read:.3f}, area {area:.3f}, "
          f"of {len(known)} and {len(near)}")  # fmt: skip
    for least in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5):
        kept = known >= least
        print(f"  from {least}: kept {kept.mean():.2f}, right {(kept & right).mean():.2f}, "
              f"declined {(near < least).mean():.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", type=Path, help="a directory; default: the embedded one")
    parser.add_argument("--each", type=int, default=4, help="questions a document")
    options = parser.parse_args()
    judge, embedder, rng = Judge.load(options.judge), Embedder.load(), random.Random(1)
    held = [text for text in read_texts() if held_out(text.text)]
    apart = list(read_file(FOLDER / "questions" / KEPT_APART))
    rng.shuffle(apart)
    questions = list(asked(apart, judge, embedder, options.each, rng))
    constants = fitted(questions)
    print("LOGIT, LACKING, COSINE, BIAS = {:.3f}, {:.3f}, {:.3f}, {:.3f}".format(*constants))
    relevance.LOGIT, relevance.LACKING, relevance.COSINE, relevance.BIAS = constants
    measured("long documents", questions)
    measured("short texts", list(asked(held, judge, embedder, 2, rng)))


if __name__ == "__main__":
    main()
