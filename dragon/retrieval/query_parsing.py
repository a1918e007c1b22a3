"""Splits a message into the questions that it joins, each without courtesies.

"What is the capital of Kenya, and what is my locker's code?" joins two. A passage that answers one
of them does not answer the whole, and would be dropped. Only clear cases are split, since half of a
single question would admit passages that do not answer it.

Greetings and courtesies ask nothing: "Hi! Could you tell me where the tent is, please?" is about a
tent, and a passage should score neither better for containing "tell" nor worse for lacking it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import cast

from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import content_words

_POLITELY = r"(?:can|could|would|will) you (?:please |kindly )?|please |pls |plz |kindly "
_GREETING = re.compile(
    rf"""\A\s*(?:
      (?:hi|hello|hey|greetings|good\ (?:morning|afternoon|evening))(?:\ there)?[,!.:]
    | (?:sorry|excuse\ me|ok|okay|well|so|and|thanks|please|pls)[,!.:]
    | (?:i\ have\ a|just\ a|a|one)?\ ?(?:quick\ |short\ )?question[,.:!]
    | just\ to\ be\ sure,
    | (?:{_POLITELY.replace(" ", chr(92) + " ")})?(?:tell|remind)\ me[,:]?(?=\s)
    | (?:do|does)\ (?:you|anybody|anyone)\ (?:know|remember)(?=\s)
    | (?:do\ you\ have\ )?any\ idea,?(?=\s)
    | i\ (?:(?:just\ )?forgot|wonder|can't\ remember|(?:want|need|would\ like)\ to\ know)(?=\s)
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)
# Match a run of spaces from its start only, or matching takes quadratic time.
_CLOSING = re.compile(
    r"(?<![\s,.!?])(?:[\s,.!?]+(?:please|pls|plz|(?:please|can you|could you) tell me)"
    r"|\s*[,.!?][\s,.!?]*(?:(?:many )?thanks(?: a lot)?|thank you|cheers|i forgot|do you know)"
    r")[\s.!?]*$",
    re.IGNORECASE,
)
_MOST_COURTESIES = 4  # at either end

COURTESIES = (_GREETING.pattern, _CLOSING.pattern, _MOST_COURTESIES)
"""The patterns behind `plain`, part of the scale's fingerprint."""


def plain(question: str) -> str:
    """The question without courtesies, or all of it if no content word would remain."""
    left = _left(question)
    return left if content_words(left) else question


def asks_nothing(message: str) -> bool:
    """Whether a message is nothing but courtesies or has no content word."""
    return not content_words(_left(f"{message}!"))


def _left(question: str) -> str:
    left = question
    for _ in range(_MOST_COURTESIES):
        left = _GREETING.sub("", left, count=1)
        left = _CLOSING.sub("?", left)
    return left


_WH = r"(?:what|when|where|which|who|whom|whose|why|how)"
_BEFORE = r"(?:(?:after|at|by|for|from|in|into|of|on|since|to|until|with)\s)?"
_OWNER = r"(?:i|you|we|my|your|our|there)"
_VERB = (
    rf"(?:(?:do|does|did|can|could|will|would|should)\s(?:{_OWNER}|the|a|an|he|she|it|they)"
    rf"|(?:is|are|was|were|am)\s{_OWNER}|tell\sme)"
)
_ASKS = rf"(?:{_BEFORE}{_WH}(?:'s)?|{_VERB})\b"
_WH_GERMAN = (
    r"(?:wann|wo(?:hin|her|mit|für|von|zu|rin)?|we[rmn]|wessen|welche[mnrs]?|wie(?:so|viele?)?"
    r"|weshalb|warum)"
)
_ASKS_GERMAN = (
    r"(?:(?:ab|an|aus|bei|bis|für|in|mit|nach|seit|um|von|vor|zu)\s)?"
    rf"(?:was|{_WH_GERMAN})\b"
)
_WH_SPANISH = r"(?:qué|cuándo|a?dónde|quién(?:es)?|cuál(?:es)?|cuánt[oa]s?|cómo)"
_ASKS_SPANISH = rf"¿?(?:(?:a|con|de|desde|en|hasta|para|por)\s)?{_WH_SPANISH}\b"

# A full stop after three letters or fewer may be that of "Dr." or "e.g."
_SENTENCE = re.compile(r"(?<=[?？])\s|(?<=\w{4}[.!;])\s(?=[A-Z])")
_JOINT = re.compile(
    rf",?\s(?:(?:and|or|but|plus)(?:\s(?:also|then))?\s(?={_ASKS})"
    rf"|(?:und|oder|aber|sowie)(?:\s(?:auch|dann))?\s(?={_ASKS_GERMAN})"
    rf"|(?:[yeou]|pero)(?:\s(?:también|además))?\s(?={_ASKS_SPANISH}))",
    re.IGNORECASE,
)
_QUESTION = re.compile(rf"{_ASKS}|{_ASKS_GERMAN}|{_ASKS_SPANISH}|.*[?？]$", re.IGNORECASE)
# "the vet who treated Rex and whose ...", "between what I paid and what ...": one question.
_WITHIN = re.compile(
    rf"\A(?:\S+\s){{2,}}?(?:{_WH}|that|between|{_WH_GERMAN}|{_WH_SPANISH})\b", re.IGNORECASE
)
POINTS_BACK = re.compile(
    r"\b(?:(?i:he|she|it|its|they|him|her|his|hers|them|their|theirs|that|this|those|these|there|then"
    r"|one)|er|sie|es|ihn|ihm|ihr|ihnen|dort|dann|davon|damit|dafür|dazu|diese[mnrs]?"
    r"|él|ellas?|ellos|eso|esto|allí|ahí|entonces|sus?)\b"
)
"""Words that refer to something named before."""
_MARK = re.compile(r"\A(?:\d{1,2}[.)]|[-*•])\s")
_MOST = 3

RULES = (*(p.pattern for p in (_SENTENCE, _JOINT, _QUESTION, _WITHIN, POINTS_BACK, _MARK)), _MOST)
"""The patterns behind `questions_of`, part of the scale's fingerprint."""


@dataclass(frozen=True)
class Query:
    """The whole message as one question, then those that it joins, and their embeddings."""

    questions: tuple[str, ...]
    vectors: Vectors = field(compare=False, repr=False)

    @classmethod
    def of(cls, message: str, embedder: TextEmbedder) -> Query:
        questions = questions_of(message)
        return cls(questions, embedder.embed(questions))

    @property
    def text(self) -> str:
        """The whole message, without courtesies."""
        return self.questions[0]

    @property
    def vector(self) -> Vectors:
        """The embedding of the whole message, float32 [dim]."""
        return cast(Vectors, self.vectors[0])


def questions_of(message: str) -> tuple[str, ...]:
    """A message without courtesies and, if it joins several questions, the last three of these.

    Questions that refer back to another ("and when did she die?") are left out: alone they would
    match anybody.
    """
    whole = plain(message)
    sentences = _SENTENCE.split(" ".join(whole.split()))
    joined = [part for sentence in sentences for part in _apart(_MARK.sub("", sentence))]
    questions = [part for part in joined if _QUESTION.match(part) and content_words(part)]
    if len(questions) < 2:
        return (whole,)
    alone = dict.fromkeys(plain(part) for part in questions if not POINTS_BACK.search(part))
    return (whole, *list(alone)[-_MOST:])


def _apart(sentence: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for joint in _JOINT.finditer(sentence):
        if not _WITHIN.match(sentence[start : joint.start()]):
            parts.append(sentence[start : joint.start()])
            start = joint.end()
    return [*parts, sentence[start:]]
