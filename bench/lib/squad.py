"""SQuAD 2.0's open half: questions of people over paragraphs of encyclopaedia articles."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragon.retrieval.chunking import sentences as cut

PARAGRAPHS = 51
THREE_CHARACTERS = 800
_REFUSAL = re.compile(
    r"could not find|couldn't find|cannot (?:find|answer)|can't (?:find|answer)|unable to|"
    r"no (?:information|mention|direct answer)|"
    r"not (?:mentioned|specified|provided|stated|given|contain)|"
    r"(?:do not|don't|does not|doesn't) (?:know|say|mention|contain|provide|specify|state)|"
    r"sorry", re.IGNORECASE
)  # fmt: skip
_QUOTED_WORDS = 5


@dataclass(frozen=True)
class Asked:
    """A question, the strings that answer it (none if nothing does), and its paragraph."""

    question: str
    answers: tuple[str, ...]
    context: str

    def answered_by(self, text: str) -> bool:
        """Whether an answer stands in the text, in any case."""
        return any(answer.lower() in text.lower() for answer in self.answers)


@dataclass(frozen=True)
class OpenHalf:
    """Paragraphs to upload; questions about them, answerable or not; and about other paragraphs."""

    paragraphs: list[str]
    answerable: list[Asked]
    unanswerable: list[Asked]
    elsewhere: list[Asked]


def read(path: Path) -> list[Asked]:
    """All questions of the file."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Asked(r["question"].strip(), () if r["unanswerable"] else tuple(r["answers"]), r["context"])
        for r in rows
    ]


def open_half(questions: Sequence[Asked], count: int, seed: int = 1) -> OpenHalf:
    """At most `count` questions of each kind over 51 paragraphs drawn at random."""
    rng = random.Random(seed)
    contexts = sorted({asked.context for asked in questions})
    paragraphs = rng.sample(contexts, min(PARAGRAPHS, len(contexts)))
    shuffled = rng.sample(list(questions), len(questions))
    inside = [asked for asked in shuffled if asked.context in paragraphs]
    return OpenHalf(
        paragraphs,
        [asked for asked in inside if asked.answers][:count],
        [asked for asked in inside if not asked.answers][:count],
        [a for a in shuffled if a.answers and a.context not in paragraphs][:count],
    )


def among_three(questions: Sequence[Asked], count: int, seed: int = 3) -> list[tuple[Asked, str]]:
    """Answerable questions, each with the sentence that answers and two of its neighbours."""
    rng = random.Random(seed)
    found: list[tuple[Asked, str]] = []
    for asked in rng.sample(list(questions), len(questions)):
        sentences = [each.text for each in cut([asked.context])]
        holders = [i for i, sentence in enumerate(sentences) if asked.answered_by(sentence)]
        if len(sentences) < 3 or len(holders) != 1 or len(found) == count:
            continue
        start = min(max(0, holders[0] - rng.randint(0, 2)), len(sentences) - 3)
        three = " ".join(sentences[start : start + 3])
        if len(three) <= THREE_CHARACTERS:
            found.append((asked, three))
    return found


def declines(reply: str) -> bool:
    """Whether a reply says that it does not know."""
    return not reply.strip() or _REFUSAL.search(reply) is not None


def quotes(reply: str, paragraphs: Sequence[str]) -> bool:
    """Whether a reply has five words in a row from one of the paragraphs."""
    words = re.findall(r"\w+", reply.lower())
    runs = {" ".join(words[i : i + _QUOTED_WORDS]) for i in range(len(words) - _QUOTED_WORDS + 1)}
    texts = [" ".join(re.findall(r"\w+", paragraph.lower())) for paragraph in paragraphs]
    return any(run in text for run in runs for text in texts)
