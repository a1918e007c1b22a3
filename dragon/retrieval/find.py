"""Finds, among a search's candidates, the lines that answer, each with its probability.

Both sides and every search use this: candidates are ranked by cosine and shared words, the judge
reads the best among the lines around them, and each remaining line has a calibrated probability,
whose log-odds are its relevance.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.judge import Line, TextJudge
from dragon.retrieval.lexical import content_words, coverage, lacking, without, words
from dragon.retrieval.names import meeting, names
from dragon.retrieval.relevance import (
    AFTER,
    BESIDE,
    LEAST,
    NAMED,
    WORDS,
    Hit,
    log_odds,
    probability,
    relevance,
)


class Length(NamedTuple):
    """Bytes of a passage: it grows until it has `least`, and never beyond `most`."""

    least: int
    most: int


CANDIDATES = 32  # at least, from each ranking, dense and BM25
READ = 10  # of the best candidates the judge reads, each among its neighbours
TO_JUDGE = Length(280, 480)  # a few lines, which the judge reads at once
TO_WRITE_FROM = Length(800, 1200)  # 200 to 300 tokens of English, for a model that writes
TO_READ = Length(400, 600)  # a few sentences, for a person who checks whether they help
REACH = 48  # sentences before and after a hit that may be part of its passage
SENTENCES = 4  # hits to consider per passage: one may contain several
FAR = 5.0  # nats below the judge's best at which a line may still turn out to be the best

_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}\Z")
_SHARED = 0.9  # of the words of near-duplicates
_PLAIN = re.compile(r"\b[a-z]+\b")

H = TypeVar("H", bound=Hit)


def ranked(questions: Sequence[str], vectors: Vectors, found: Sequence[H]) -> list[H]:
    """Candidates with their best score over several questions, best first, ties by id."""
    scored = []
    for hit in found:
        value = max(
            (0.0 if hit.vector is None else float(hit.vector @ vector))
            + WORDS * coverage(question, _seen(hit))
            for question, vector in zip(questions, vectors, strict=True)
        )
        scored.append(replace(hit, score=value, relevance=relevance(value)))
    return sorted(scored, key=lambda hit: (-hit.score, hit.id))


def to_read(questions: Sequence[str], best: Sequence[H]) -> list[H]:
    """The best candidates for the judge; those that have what a question names come first."""
    named = {hit.id for each in questions if names(each) for hit in meeting(each, best, _texts)}
    return sorted(best, key=lambda hit: hit.id not in named)[:READ]


def embedded(hits: Sequence[H], embedder: TextEmbedder) -> list[H]:
    """Hits with new vectors, each embedded separately with its context."""
    vectors = embedder.embed([embedded_text(hit.text, hit.context) for hit in hits])
    return [replace(hit, vector=vector) for hit, vector in zip(hits, vectors, strict=True)]


@dataclass(frozen=True)
class JudgedLine(Generic[H]):
    """A line with its logit, the share of the question's words only others have, and its cosine."""

    line: H
    logit: float
    lacking: float
    cosine: float

    @property
    def odds(self) -> float:
        return log_odds(self.logit, self.lacking, self.cosine)


class _Reading(NamedTuple, Generic[H]):
    """A line, the wording that it was read for, and the judge's logit."""

    line: H
    wording: str
    logit: float


@dataclass(frozen=True)
class Thread:
    """A chat's question as it was `asked`, and ids of lines `beside` those of its last reply."""

    asked: str
    beside: Collection[int]


@dataclass(frozen=True)
class LineReader:
    """Reads lines for a question, with the judge and the embedder that relevance was fitted to."""

    judge: TextJudge
    embedder: TextEmbedder

    def judged(
        self, question: str, best: Sequence[H], near: Mapping[int, Sequence[H]], premise: str = ""
    ) -> list[JudgedLine[H]]:
        """The lines of and around the candidates, judged for a question after its premise.

        `near` are the lines around each candidate, in order, itself among them. A passage about
        another day, ticket or room than the question's would seem to answer it, so it is excluded.
        Lines are read for the shorter wordings of `_wordings`, too: the likelier one counts.
        """
        named, question = question, f"{premise} {question}".strip()
        passages = around(best, near, READ, TO_JUDGE)
        read = [
            reading
            for wording, some in _wordings(question, passages).items()
            for reading in self._read(wording, some, near)
            if not _asks_it(question, reading.line.text)
        ]
        shares = lacking(question, [_seen(each.line) for each in read])
        lacks = {each.line.id: share for each, share in zip(read, shares, strict=True)}
        likely = meeting(named, read, lambda each: _texts(each.line))
        highest = max((each.logit for each in likely), default=0.0)
        likely = [each for each in likely if each.logit >= highest - FAR]
        headings = {
            line.id: heading(line, near[hit.id]) for hit, lines in passages for line in lines
        }
        vectors, asked = self._embedded(likely)
        judged: dict[int, JudgedLine[H]] = {}
        for line, wording, logit in likely:
            vector = vectors[line.id]
            said = replace(line, context=headings[line.id], vector=vector)
            each = JudgedLine(said, logit, lacks[line.id], float(vector @ asked[wording]))
            if line.id not in judged or judged[line.id].odds < each.odds:
                judged[line.id] = each
        return list(judged.values())

    def _read(
        self,
        wording: str,
        passages: Sequence[tuple[H, list[H]]],
        near: Mapping[int, Sequence[H]],
    ) -> Iterator[_Reading[H]]:
        """The lines of passages as the judge reads them for a wording."""
        read = [_headed(lines, near[hit.id]) for hit, lines in passages]
        for (hit, lines), logits in zip(passages, self.judge.logits(wording, read), strict=True):
            for line, logit in zip(lines, logits, strict=True):
                yield _Reading(replace(line, about=hit.about), wording, float(logit))

    def _embedded(
        self, read: Sequence[_Reading[H]]
    ) -> tuple[dict[int, Vectors], dict[str, Vectors]]:
        """The vectors of the lines by id, and of the wordings.

        Each is embedded separately: a search's vectors may have been pooled among other lines.
        """
        lines = {each.line.id: each.line for each in read}
        asked = list(dict.fromkeys(each.wording for each in read))
        texts = [embedded_text(line.text, line.context) for line in lines.values()]
        vectors = self.embedder.embed([*texts, *asked])
        return (
            dict(zip(lines, vectors, strict=False)),
            dict(zip(asked, vectors[len(texts) :], strict=True)),
        )

    def answering(
        self,
        questions: Sequence[str],
        best: Sequence[H],
        near: Mapping[int, Sequence[H]],
        least: float = LEAST,
        *,
        thread: Thread | None = None,
        premise: str = "",
    ) -> list[H]:
        """The lines that answer one of several questions, each after its premise, best first.

        A line needs `least` log-odds, and must not be much less likely than the likeliest. In a
        `thread` the first question is also read as it was asked, and the better wording counts. A
        line's score is the probability that it answers, its relevance the log-odds.
        """
        likely: dict[int, H] = {}
        for question in questions if thread is None else questions[:1]:
            wordings = [question] if thread is None else dict.fromkeys((question, thread.asked))
            read: dict[int, tuple[float, H]] = {}
            for wording in wordings:
                # What it leaves out may stand beside the lines of the last reply.
                beside = thread.beside if thread is not None and wording == thread.asked else ()
                for each in self.judged(wording, best, near, premise):
                    odds = each.odds + (AFTER if each.line.id in beside else 0.0)
                    before = read.get(each.line.id)
                    if before is None or before[0] < odds:
                        read[each.line.id] = odds, each.line
            enough = least - NAMED if names(question) else least
            enough = max(enough, max((odds for odds, _ in read.values()), default=enough) - BESIDE)
            for odds, line in read.values():
                value = probability(odds)
                known = likely.get(line.id)
                if odds >= enough and (known is None or known.score < value):
                    likely[line.id] = replace(line, score=value, relevance=relevance(value))
        return sorted(likely.values(), key=lambda line: (-line.score, line.id))

    def best_odds(self, question: str, lines: Sequence[Line]) -> float:
        """The log-odds that the likeliest of a passage's lines answers a question."""
        (logits,) = self.judge.logits(question, [lines])
        asked, *vectors = self.embedder.embed(
            [question, *(embedded_text(line.text, line.above) for line in lines)]
        )
        shares = lacking(question, [f"{line.text} {line.above}" for line in lines])
        return max(
            log_odds(float(logit), share, float(vector @ asked))
            for logit, share, vector in zip(logits, shares, vectors, strict=True)
        )


def _wordings(
    question: str, passages: Sequence[tuple[H, list[H]]]
) -> dict[str, list[tuple[H, list[H]]]]:
    """The question with all passages, and shorter ones with those that are about what is left out.

    Within a report on Tobias, "How much does Tobias weigh?" is "How much does weigh?": its lines
    name nobody.
    """
    wordings = {question: list(passages)}
    for hit, lines in passages:
        shorter = without(question, hit.about)
        if shorter and content_words(shorter):
            wordings.setdefault(shorter, []).append((hit, lines))
    return wordings


def _asks_it(question: str, line: str) -> bool:
    """Whether a line is the question itself, which is most like it and answers nothing."""
    asked = line.rpartition(": ")[2]  # without the label of a record or the name of a speaker
    shared = min(coverage(question, asked), coverage(asked, question))
    return asked.endswith("?") and shared >= _SHARED


def _headed(lines: Sequence[H], near: Sequence[H]) -> list[Line]:
    made, last = list[Line](), None
    for line in lines:
        title = heading(line, near)
        above = line.context if last is None else title if title != last else ""
        made.append(Line(line.text, above))
        last = title
    return made


def _texts(hit: Hit) -> tuple[str, ...]:
    """Texts that may name the thing asked about; "contract_2025.txt" is contract 2025."""
    return hit.text, hit.context, _SUFFIX.sub("", hit.title).replace("_", " "), hit.about


def _seen(hit: Hit) -> str:
    return f"{hit.text} {hit.context} {hit.about}"


def distinct(passages: Iterable[H]) -> list[H]:
    """The passages in order, without those that differ from an earlier one in few plain words.

    Those that differ in a number, a code or a name are distinct, however similar otherwise.
    """
    kept: list[tuple[H, set[str], set[str]]] = []
    for passage in passages:
        own, plain = set(words(passage.text)), set(_PLAIN.findall(passage.text))
        if not any(
            len(own & other) >= _SHARED * len(own | other) and own ^ other <= plain | also_plain
            for _, other, also_plain in kept
        ):
            kept.append((passage, own, plain))
    return [passage for passage, _, _ in kept]


# Passages of several sentences around those that a search found.


def around(
    hits: Sequence[H], near: Mapping[int, Sequence[H]], most: int, length: Length = TO_WRITE_FROM
) -> list[tuple[H, list[H]]]:
    """At most `most` passages, best first: each hit with the sentences around it.

    `near` are the neighbours of each hit by its id, itself among them, with ids in the order of
    their document. A hit in an earlier passage is part of that one, and no sentence is in two.
    """
    taken: set[int] = set()
    passages: list[tuple[H, list[H]]] = []
    for hit in hits:
        if hit.id in taken or len(passages) == most:
            continue
        if grown := _grown(hit.id, near.get(hit.id, ()), taken, length):
            taken.update(sentence.id for sentence in grown)
            passages.append((hit, grown))
    return passages


def heading(sentence: Hit, near: Sequence[Hit]) -> str:
    """The heading of a sentence: its context without the part that is a sentence `near` it."""
    context = sentence.context
    for other in near:
        if context == other.text:
            return ""
        if context.endswith(f": {other.text}"):
            return context.removesuffix(f": {other.text}")
    return context


def _grown(hit: int, near: Sequence[H], taken: Collection[int], length: Length) -> list[H]:
    """A sentence with those after and before it in turn; none if it no longer exists."""
    at = next((place for place, sentence in enumerate(near) if sentence.id == hit), None)
    if at is None:
        return []
    grown, size = [near[at]], _bytes(near[at])
    sides = [iter(near[at + 1 :]), reversed(near[:at])]  # on which it may still grow
    while sides and size < length.least:
        side = sides.pop(0)
        more = next(side, None)
        if more and more.id not in taken and size + _bytes(more) <= length.most:
            grown.append(more)
            size += _bytes(more)
            sides.append(side)
    return sorted(grown, key=lambda sentence: sentence.id)


def _bytes(sentence: Hit) -> int:
    return len(sentence.text.encode())
