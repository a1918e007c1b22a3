"""The request for a generation and the events of its answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app.ledger.leakage import Part, PartKind
from app.settings import Cloud
from dragon.inference.chat_template import Message
from dragon.inference.reading import TextStream
from dragon.inference.rows import Begins
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Mode, Sampling

DEFAULT_MAX_TOKENS = 512

Entry = tuple[str, int, float, float]
"""An entry of `answer.Trace`: kind, position, from and to, in milliseconds."""


def _new_id() -> str:
    return f"answer-{uuid.uuid4().hex}"


def question_of(messages: Sequence[Message]) -> str:
    """The last message of the user, or nothing."""
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


@dataclass(frozen=True)
class Details:
    """Requests a `TokenDetail` of each token, with its `top` likeliest alternatives (0 to 20).

    With `prompt` the prompt's own tokens are scored as well, before the answer begins.
    """

    top: int = 0
    prompt: bool = False


@dataclass(frozen=True)
class GenerationRequest:
    """A request for one answer.

    `conversation` holds the token ids that follow a document, `begins` says what they begin with,
    and `raw` marks a plain prompt without the chat template. `query` is the text to search
    documents with; unless `judged` is false, only passages that answer it are used. The cloud gets
    `cloud_conversation` and `cloud_query` instead, where they are not None.

    A model rewrites the question of a chat's `messages` to stand alone, and the cloud's question
    from `cloud_messages`; `parts` are the user's words in the latter, for the ledger. A joint
    answer begins with the `premise`, the tokens of a line of the user's own documents that the
    question leans on; the cloud searches with both. `prompt` is the client's own chat, how it
    begins and its tokens, if the answer is written from another one.

    `max_tokens` 0 writes nothing and only scores the prompt. A `stop` string ends the answer, and
    is part of it if `with_stop`; any of the `stop_tokens` ends it, too. If `special`, the text
    includes special tokens that do not end it.

    `documents` and `collections` limit which of the user's documents may be used; None is no limit.
    Passages within a text of `passed_over` are not used: they were quoted before. `id` names the
    answer, also in the ledger. `epsilon` bounds what the cloud learns of the passages used, by
    (epsilon, `accountant.DELTA`)-differential privacy; None is no bound. With `wait` the first
    token waits for the cloud, however late it is.
    """

    conversation: tuple[int, ...]
    query: str
    sampling: Sampling = field(default_factory=Sampling)
    judged: bool = True
    cloud_conversation: tuple[int, ...] | None = None
    cloud_query: str | None = None
    premise: tuple[int, ...] = ()
    messages: tuple[Message, ...] = ()
    cloud_messages: tuple[Message, ...] = ()
    prompt: tuple[Begins, tuple[int, ...]] | None = None
    parts: tuple[Part, ...] = ()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_tokens: frozenset[int] = frozenset()
    with_stop: bool = False
    special: bool = False
    mode: Mode = Mode.ONEWAY
    top_k: int | None = None
    cloud: Cloud = Cloud.ALWAYS
    raw: bool = False
    begins: Begins = Begins.TURNS
    details: Details | None = None
    documents: tuple[str, ...] | None = None
    collections: tuple[str, ...] | None = None
    passed_over: tuple[str, ...] = ()
    epsilon: float | None = None
    wait: bool = False
    id: str = field(default_factory=_new_id)

    @property
    def private(self) -> bool:
        """Whether nothing may leave the device."""
        return self.cloud is Cloud.NEVER

    @property
    def joint(self) -> bool:
        """Whether the cloud may take part in the answer."""
        return self.mode.joint and not self.private

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's own tokens are scored."""
        return self.details is not None and self.details.prompt

    @property
    def limit(self) -> int:
        """The most tokens of the answer."""
        return DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def least(self) -> int:
        """How many tokens of room the answer needs at least."""
        return 1 if self.max_tokens is None else self.max_tokens

    def stream(self, tokenizer: Tokenizer) -> TextStream:
        """The stream that turns the answer's tokens into text."""
        return TextStream(tokenizer, self.stop, with_stop=self.with_stop, special=self.special)

    def prompt_ids(self, tokenizer: Tokenizer) -> list[int]:
        """The client's own prompt, with what the template puts before it; no passages."""
        begins, own = self.prompt or (self.begins, self.conversation)
        return [*tokenizer.bare_row(raw=self.raw, begins=begins), *own]

    def prompt_tokens(self, tokenizer: Tokenizer) -> int:
        return len(self.prompt_ids(tokenizer))

    def another(self, stream: int) -> GenerationRequest:
        """A request for another answer to the same, with its own id and random stream."""
        return replace(self, id=_new_id(), sampling=replace(self.sampling, stream=stream))

    def cut(self, tokens: int) -> GenerationRequest:
        """The request with only the last tokens of its conversation; its search text stays."""
        cloud = self.cloud_conversation
        return replace(
            self,
            conversation=self.conversation[-tokens:],
            cloud_conversation=None if cloud is None else cloud[-tokens:],
        )

    def without_cloud(self) -> GenerationRequest:
        return replace(self, cloud=Cloud.NEVER)

    # The cloud's part.

    @property
    def shown(self) -> tuple[int, ...]:
        """The conversation as the cloud gets it."""
        return self.conversation if self.cloud_conversation is None else self.cloud_conversation

    @property
    def asked(self) -> str:
        """The query as the cloud gets it."""
        return self.query if self.cloud_query is None else self.cloud_query

    @property
    def hides(self) -> bool:
        """Whether the cloud is given less than the whole conversation.

        Its turns count, too, where the question stands alone: the device's search follows them.
        """
        return self.shown != self.conversation or self.cloud_messages != self.messages

    def given(self) -> GenerationRequest:
        """The request with the cloud's part only; a joint run is made from nothing else.

        If the device conditioned on more, a peer's words ("Earlier you said: ") could make it send
        the rest up as corrections.
        """
        if not self.hides:
            return self
        return replace(
            self,
            conversation=self.shown,
            cloud_conversation=None,
            messages=self.cloud_messages,
            query=self.asked,
            prompt=self.prompt or (self.begins, self.conversation),
        )

    def given_parts(self, decode: Callable[[Sequence[int]], str]) -> Iterator[Part]:
        """The user's words in the cloud's part, by kind."""
        yield from self.parts
        if self.raw:
            yield Part(PartKind.PROMPT, decode(self.shown))
        elif self.asked not in (part.text for part in self.parts):
            yield Part(PartKind.SEARCH, self.asked)
        if self.sampling.grammar:
            yield Part(PartKind.FORMAT, self.sampling.grammar)
        if biased := self.sampling.logit_bias:
            yield Part(PartKind.WORDS, decode([token for token, _ in biased]))


@dataclass(frozen=True)
class Source:
    """A document an answer was conditioned on. `weight` is its share within its side, 0 to 1.

    `query` is the SQL that a table's answer comes from. `citation` is the number that the model may
    cite it by. `confidence` is that of text recognised in a picture, in percent. For a sentence of
    the user's documents, `around` is its paragraph.
    """

    side: Literal["private", "public"]
    id: str
    title: str
    text: str
    score: float
    weight: float
    page: int | None = None
    start: int | None = None
    end: int | None = None
    query: str | None = None
    citation: int | None = None
    confidence: int | None = None
    around: str = ""


@dataclass(frozen=True)
class Citation:
    """A number in the answer's text, `start` to `end` in characters, that cites a source.

    `source` is its index in the last `SourcesFound`.
    """

    start: int
    end: int
    source: int


@dataclass(frozen=True)
class Cited:
    """Citations in the text so far, in order, after the text that completed them."""

    citations: tuple[Citation, ...]


@dataclass(frozen=True)
class SourcesFound:
    """All sources known so far; a later event of this kind replaces it.

    `nothing_relevant`: the user's documents were searched, and none is about this.
    `unread_documents` could not be searched: they were still being read. `closest` are the user's
    passages that come nearest apart from the sources; the answer is not written from them.
    `declines`: without sources, the text is `NO_ANSWER`, whatever was asked.
    """

    sources: tuple[Source, ...]
    nothing_relevant: bool = False
    unread_documents: int = 0
    closest: tuple[Source, ...] = ()
    declines: bool = False


@dataclass(frozen=True)
class TextDelta:
    """Text that is final, and the tokens it came from (none while a character is incomplete).

    After the `last` one the text is complete.
    """

    text: str
    tokens: tuple[int, ...]
    last: bool = False


@dataclass(frozen=True)
class TokenDetail:
    """A token's log-probability and attribution in the full mixture of both sides at temperature 1.

    `position` counts tokens of the answer, or of the prompt; `text` is the token's own, `start` and
    `end` its character range in the answer's text (empty for a token that ends the answer, and for
    all but the last of the tokens that make up one character).

    `logprob` is a natural logarithm, None for the prompt's first token, which has no context; `top`
    holds the likeliest tokens with theirs, the likeliest first. `cloud` is (1 - eta) p^cloud(x) /
    p(x), the cloud's share in the token; `documents` are the shares of the sources of the last
    `SourcesFound`, in its order (with rows without a document, they sum to 1). `tv` is the distance
    between the two sides, 0 to 1. Without the cloud `cloud` is 0 and `tv` None.
    """

    position: int
    token: int
    text: str
    start: int
    end: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()
    cloud: float | None = None
    documents: tuple[float, ...] = ()
    tv: float | None = None

    def provenance(self) -> dict[str, object]:
        """The token's provenance, as in responses and on the page's socket."""
        names = ("position", "text", "start", "end", "cloud", "documents", "tv")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Detailed:
    """Tokens of the answer, in order, after the text they made. All come before `Finished`."""

    details: tuple[TokenDetail, ...]


@dataclass(frozen=True)
class PromptDetailed:
    """All tokens of the prompt, if requested; only `SourcesFound` may come before it."""

    details: tuple[TokenDetail, ...]


@dataclass(frozen=True)
class PeerChanged:
    """From token `position` on the cloud takes part, or no longer does.

    `refused`: it was asked, and has no room now; the reason says when it will. `unsearched`: how
    many parts of its corpus were down or late; their passages are missing from the answer.
    """

    joint: bool
    position: int
    reason: str
    refused: bool = False
    unsearched: int = 0


@dataclass(frozen=True)
class NotAsked:
    """The cloud was not asked: the user's own documents answer, or no document is needed."""


@dataclass(frozen=True)
class Finished:
    """The last event. `participation` lists the half-open token ranges written jointly.

    `verdicts` has one character per jointly written token, for whose draft it is: `=` both sides',
    `d` the device's, `c` the cloud's, `.` neither's. `aggregators` has the side that computed each
    one, `d` or `c`; it is empty if both do. `trace` is the timeline (`answer.Trace`). `stop` is the
    stop string that ended the answer, if one did.
    """

    reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    participation: tuple[tuple[int, int], ...] = ()
    stats: Mapping[str, float] = field(default_factory=dict)
    verdicts: str = ""
    trace: tuple[Entry, ...] = ()
    stop: str | None = None
    aggregators: str = ""


Event = (
    SourcesFound | PromptDetailed | TextDelta | Cited | Detailed | PeerChanged | NotAsked | Finished
)
