"""Fit what makes probabilities of the judge's logits: `python -m training.calibrate`.

Questions about texts that the judge was not trained on are searched as in the product: candidates
by cosine and shared words, read among the lines around them. A logistic regression of whether a
line answers, over its logit, the share of the question's words in it and the cosine of the two,
gives the constants of `dragon.retrieval.relevance`. Half of the questions about long documents, in
which most lines are near misses, take part, and the other half is measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from dragon.retrieval import find, relevance
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.find import JudgedLine
from dragon.retrieval.judge import Judge
from dragon.retrieval.relevance import Hit
from training.texts import FOLDER, KEPT_APART, Text, held_out, read_file, read_texts, same

LONG = 3
"""How often each question about a long document counts, since there are few."""


@dataclass(frozen=True)
class Asked:
    """A question: the lines that were read, which of them answer, and whether any of its text."""

    lines: Sequence[JudgedLine[Hit]]
    right: Sequence[bool]
    answered: bool

    def surely(self) -> float:
        """Log-odds that it is answered, with the constants in use; low where nothing is met."""
        return max((each.odds for each in self.lines), default=-99.0)

    def first(self) -> bool:
        """Whether the line in the first place answers."""
        odds = [each.odds for each in self.lines]
        return bool(odds) and self.right[int(np.argmax(odds))]


def asked(
    texts: Sequence[Text], judge: Judge, embedder: Embedder, each: int, rng: random.Random
) -> Iterator[Asked]:
    """At most `each` questions a text that it answers, and half as many that it does not."""
    reader = find.LineReader(judge, embedder)
    for text in texts:
        lines = text.lines()
        vectors = embedder.embed([embedded_text(line.text, line.context) for line in lines])
        hits = [
            Hit(n, "", "", line.text, 0.0, 0.0, context=line.context, vector=vector)
            for n, (line, vector) in enumerate(zip(lines, vectors, strict=True))
        ]
        chosen = rng.sample(text.asked, min(each, len(text.asked)))
        near = rng.sample(text.unasked, min(max(1, each // 2), len(text.unasked)))
        for question, answer in [*chosen, *((question, "") for question in near)]:
            vector = embedder.embed([question])
            best = find.to_read([question], find.ranked([question], vector, hits))
            read = reader.judged(question, best, {hit.id: hits for hit in best})
            right = [bool(answer) and same(each.line.text, answer) for each in read]
            yield Asked(read, right, bool(answer))


def fitted(questions: Sequence[Asked]) -> tuple[float, ...]:
    """`LOGIT`, `SHARED`, `COSINE` and `BIAS` of greatest likelihood."""
    pairs = [
        (each, right)
        for question in questions
        for each, right in zip(question.lines, question.right, strict=True)
    ]
    features = np.array([(each.logit, each.shared, each.cosine) for each, _ in pairs])
    model = LogisticRegression(C=1e4).fit(features, [right for _, right in pairs])
    return (*map(float, model.coef_[0]), float(model.intercept_[0]))


def measured(name: str, questions: Sequence[Asked]) -> None:
    """Print how often the best line answers, the area, and what thresholds keep and decline."""
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
    """Fit, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", type=Path, help="a directory; default: the embedded one")
    parser.add_argument("--each", type=int, default=4, help="questions a document")
    options = parser.parse_args()
    judge, embedder, rng = Judge.load(options.judge), Embedder.load(), random.Random(1)
    held = [text for text in read_texts() if held_out(text.text)]
    questions = list(asked(held, judge, embedder, 2, rng))
    apart = list(asked(list(read_file(FOLDER / "questions" / KEPT_APART)), judge, embedder,
                       options.each, rng))  # fmt: skip
    constants = fitted([*questions, *(apart[::2] * LONG)])
    print("LOGIT, SHARED, COSINE, BIAS = {:.3f}, {:.3f}, {:.3f}, {:.3f}".format(*constants))
    relevance.LOGIT, relevance.SHARED, relevance.COSINE, relevance.BIAS = constants
    measured("held out", questions)
    measured("documents, the other half", apart[1::2])


if __name__ == "__main__":
    main()
