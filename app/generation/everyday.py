"""Messages that need no document: told from questions, and answered by a model alone.

Everyday messages are some; a small model is shown the exchanges that are most like the message
before it replies. Others hold a whole chat, as programs send it to ask for a title: no document
says what a chat should be called, and its turns cannot be told apart like those of a conversation,
to hide some of them from the cloud.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from app.generation.events import GenerationRequest
from app.generation.plan import Retrieved
from dragon.inference.chat_template import Message, Rendering
from dragon.inference.engine import Engine
from dragon.inference.rows import Begins, Row
from dragon.inference.tokenizer import Tokenizer
from dragon.link.control import MAX_QUERY
from dragon.models import EXCHANGES
from dragon.models.instructions import EVERYDAY
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256, TextEmbedder
from dragon.retrieval.judge import TextJudge
from dragon.retrieval.prompt_rows import bare_row

EXAMPLES = 4
"""How many exchanges the built-in model is shown."""

NEEDLESS = 2.0
"""The least log-odds that a message needs no document; high, since a vain search costs little."""

VECTORS = EXCHANGES.with_suffix(".npy")
"""Vectors of the messages by the packaged embedder, float16 [exchanges, dim]."""

_TASK, _FOREIGN = "task", ("german", "spanish")
_WORD = re.compile(r"\w+")

_ASKS = r"(?:user|human|benutzer|nutzer|usuario)"
_ANSWERS = r"(?:assistant|assistent|asistente|ai|model|(?:chat[ ]?)?(?:bot|gpt))"
# A line that begins with a role, perhaps after a time, or is just a role; a template's marker of a
# role, or a tag; JSON, YAML or an attribute that names it.
_TURN = r"""(?:
    ^(?:[^\w\n]|\d)*{role}(?:[^\w\n]|\d){{0,6}}[:\uff1a]\**
    | ^[^\w\n]*[\#\[*=]\W?{role}[^\w\n]*$
    | <\W{{0,3}}(?:\w{{1,20}}\W{{1,4}}){{0,2}}{role}(?:_token)?\b[^\w\s<]{{0,3}}
      (?:<[^<>]{{1,20}}>(?:final)?)*
    | \brole\b["'\\]*\s*[:=]\s*["'\\]*{role}\b["'\\]*
    {more})\s*"""
_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_ASKED = re.compile(_TURN.format(role=_ASKS, more=r"| \[INST\] | \b(?-i:USER):"), _FLAGS)
_ANSWERED = re.compile(
    _TURN.format(role=_ANSWERS, more=r"| \[/INST\] | \b(?-i:ASSISTANT):") + r"[^\s<\[]", _FLAGS
)


@dataclass(frozen=True)
class Exchange:
    """A message that needs no document, its kind, and a reply."""

    kind: str
    message: str
    reply: str


@cache
def read() -> tuple[Exchange, ...]:
    """Read all exchanges that come with the package."""
    rows = map(json.loads, EXCHANGES.read_text("utf-8").splitlines())
    return tuple(Exchange(row["kind"], row["q"], row["reply"]) for row in rows)


@dataclass(frozen=True)
class Everyday:
    """Tells everyday messages from questions, and makes the row before one."""

    engine: Engine
    tokenizer: Tokenizer
    embedder: TextEmbedder
    judge: TextJudge

    async def needless(self, request: GenerationRequest) -> bool:
        """Whether its last message needs no document: a greeting, thanks, a small task.

        "And easy-care?" may look like small talk; the question that it stands for does not.
        """
        if not request.judged or request.raw or not request.messages or request.max_tokens == 0:
            return False
        message = request.messages[-1].content
        if holds_a_chat(message):
            return True
        wordings = dict.fromkeys((message[-MAX_QUERY:], request.query))
        job = self.engine.submit_urgent(
            lambda: all(self.judge.needless(each) > NEEDLESS for each in wordings)
        )
        return await asyncio.wrap_future(job)

    async def row(self, request: GenerationRequest, *, examples: bool) -> Retrieved:
        """The row before such a message, with `examples` if there is room for them."""
        if not examples or request.begins is not Begins.TURNS:
            row = bare_row(self.tokenizer, raw=request.raw, quotes=False, begins=request.begins)
            return Retrieved([row], [])
        message = request.messages[-1].content
        job = self.engine.submit_urgent(lambda: nearest(self.embedder, message, EXAMPLES))
        turns = [
            Message(role, text)
            for each in await asyncio.wrap_future(job)
            for role, text in (("user", each.message), ("assistant", each.reply))
        ]
        tokens = self.tokenizer.document_row(EVERYDAY)
        shown = self.tokenizer.chat(turns, Rendering(begun=False)).tokens if turns else []
        room = self.engine.model.context - len(request.conversation) - request.least
        if len(tokens) + len(shown) <= room:
            tokens += shown
        return Retrieved([Row(tuple(tokens), 0.0)], [])


def holds_a_chat(text: str) -> bool:
    """Whether a text contains a question and an answer, each marked as somebody's turn."""
    return bool(_ASKED.search(text) and _ANSWERED.search(text))


def nearest(embedder: TextEmbedder, message: str, count: int) -> list[Exchange]:
    """At most `count` exchanges like a message, the nearest last; none for a task.

    A model would copy the result of another task, or reply in another language: of foreign
    exchanges only those that share a word with the message are taken. There are vectors of the
    packaged embedder only, so another one finds none.
    """
    if embedder.fingerprint != PACKAGED_WEIGHTS_SHA256:
        return []
    likeness = _vectors() @ embedder.embed([message])[0]
    every = read()
    near = [every[i] for i in np.argsort(-likeness, kind="stable").tolist()]
    if near[0].kind == _TASK:
        return []
    words = _words(message)
    talk = (
        each
        for each in near
        if each.kind != _TASK
        and (each.kind not in _FOREIGN or not words.isdisjoint(_words(each.message)))
    )
    return [*islice(talk, count)][::-1]


@cache
def _vectors() -> npt.NDArray[np.float32]:
    vectors: npt.NDArray[np.float32] = np.load(VECTORS).astype(np.float32)
    return vectors


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
