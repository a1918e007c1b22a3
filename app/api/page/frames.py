"""The frames of `/ws/chat`: what a page may send, and what it gets about one answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from app.api.openai.field_types import Str, Strict
from app.api.page.markdown import Block, MarkdownStream
from app.api.page.parameters import Params
from app.conversations import record
from app.conversations.background_run import BackgroundRun
from app.documents.uploads import MAX_COLLECTION_CHARACTERS
from app.generation.events import Event, PeerChanged, SourcesFound
from app.problems import Problem
from dragon.localizable import with_localizable

Frame = dict[str, Any]


Id = Annotated[str, Field(min_length=1, max_length=64)]


class Say(Strict):
    """Ask in a conversation, a new one if none is named, after an earlier answer or at the top.

    A new conversation may belong to a project. The reply is a frame `began` with this `id`; those
    about the answer carry the answer's own id.
    """

    type: Literal["say"]
    id: Id
    conversation: Id | None = None
    parent: Id | None = None
    project: Annotated[str, Field(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    text: Annotated[Str, StringConstraints(min_length=1, pattern=r"\S")]
    params: Params = Params()


class Again(Strict):
    """Another answer to the question `message`; the reply is that to `say`.

    With `other` it is written on the device, from passages that no answer to it has quoted yet.
    """

    type: Literal["again"]
    id: Id
    message: Id
    other: bool = False
    params: Params = Params()


class Continue(Strict):
    """Continue an answer that has ended; the reply is that to `say`."""

    type: Literal["continue"]
    id: Id
    message: Id
    params: Params = Params()


class Watch(Strict):
    """Read an answer from its beginning; one that has ended comes in a frame `message`."""

    type: Literal["watch"]
    id: Id


class Stop(Strict):
    """End an answer; what is written stays."""

    type: Literal["stop"]
    id: Id


Incoming = Say | Again | Continue | Watch | Stop
INCOMING: TypeAdapter[Incoming] = TypeAdapter(Annotated[Incoming, Field(discriminator="type")])


def failure(answer_id: str | None, problem: Problem) -> Frame:
    """What went wrong with an answer, or with a frame of the page."""
    return {"type": "error", "id": answer_id, **problem.shown()}


async def frames(run: BackgroundRun) -> AsyncGenerator[Frame, None]:
    """The frames of a background run from its beginning to its end."""
    view = _View(run)
    async with aclosing(run.follow()) as batches:
        async for events in batches:
            for frame in list(view.render(events)):
                yield frame


class _View:
    """A background run as one reader sees it: its events, and its text as blocks of HTML."""

    def __init__(self, run: BackgroundRun) -> None:
        self._run = run
        self._markdown = MarkdownStream()
        self._blocks = 0
        self._shown = ""

    def render(self, events: Sequence[Event]) -> Iterator[Frame]:
        """The frames for what is new since the last call."""
        run, written = self._run, self._run.written
        for event in events:
            if isinstance(event, SourcesFound):
                yield {"type": "sources", "id": run.id, **record.sources(event)}
            elif isinstance(event, PeerChanged):
                yield {"type": "peer", "id": run.id, **with_localizable(asdict(event))}
        seams = [(at, joint) for at, joint, _ in written.seams]
        self._markdown.grow(written.text, seams, written.phrases)
        for part in self._markdown.finish() if run.over else self._markdown.take():
            yield self._block(part, open_=False)
            self._blocks += 1
        if run.over:
            yield from self._end()
        elif (last := self._markdown.open()) is not None and last.text != self._shown:
            self._shown = last.text
            yield self._block(last, open_=True)

    def _end(self) -> Iterator[Frame]:
        ending = self._run.written.ending
        if ending is not None:
            kind = "error" if ending.problem else "done"
            written = self._run.written
            yield {"type": kind, "id": self._run.id, **written.end(), "phrases": written.phrases}

    def _block(self, part: Block, *, open_: bool) -> Frame:
        """A block; an open one is sent again as it grows.

        `start` is the character offset of its Markdown `text` in the answer; `tail` is the end of
        it that is not in `html` yet. `tokens` counts those so far, in `ms` since the first.
        """
        answer = self._run.written.answer
        return {
            "type": "block",
            "id": self._run.id,
            "index": self._blocks,
            "open": open_,
            **asdict(part),
            "tokens": 0 if answer is None else len(answer.tokens),
            "ms": self._run.milliseconds,
        }
