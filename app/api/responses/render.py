"""Pure renderers of a response: as an object at any moment, and as the events of its stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import BaseModel

from app.api.openai.logprobs import TokenLogprob
from app.api.responses.shapes import (
    FileCitation,
    FileSearchCall,
    Incomplete,
    OutputMessage,
    OutputText,
    ResponseError,
    ResponseObject,
    ResponseUsage,
    SearchResult,
    Status,
)
from app.generation.events import Event, SourcesFound, TextDelta


@dataclass(frozen=True)
class View:
    """A response as it stands: what was asked, and what there is of the answer.

    `asked` has the fields of the object that the request sets, and `query`, None where the search
    is not to be shown; `sources` are the person's own, as in `events.Source`.
    """

    key: str
    created_at: int
    asked: Mapping[str, Any]
    query: str | None = None
    results: bool = False
    status: Status = "in_progress"
    text: str = ""
    sources: Sequence[Mapping[str, Any]] = ()
    logprobs: Sequence[TokenLogprob] = ()
    usage: tuple[int, int] | None = None
    problem: str | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return f"resp_{self.key}"

    def search(self) -> FileSearchCall | None:
        """The call of the search, done; None where it is not to be shown."""
        if self.query is None:
            return None
        found = [
            SearchResult(
                file_id=source["id"],
                filename=source["title"],
                score=source["score"],
                text=source["text"],
            )
            for source in self.sources
        ]
        return FileSearchCall(
            id=f"fs_{self.key}",
            status="completed",
            queries=[self.query],
            results=found if self.results else None,
        )

    def citations(self) -> list[FileCitation]:
        """The person's documents that the text is from, each once, at its end."""
        titles = {source["id"]: source["title"] for source in self.sources}
        return [
            FileCitation(index=len(self.text), file_id=identity, filename=title)
            for identity, title in titles.items()
        ]

    def part(self) -> OutputText:
        """The text with its citations."""
        return OutputText(
            text=self.text, annotations=self.citations(), logprobs=list(self.logprobs)
        )

    def message(self) -> OutputMessage:
        """The assistant's message."""
        status = self.status if self.status in ("in_progress", "completed") else "incomplete"
        return OutputMessage(id=f"msg_{self.key}", status=status, content=[self.part()])

    def object(self) -> ResponseObject:
        """The whole response, with the output that is done."""
        output: list[FileSearchCall | OutputMessage] = []
        if self.status != "in_progress":
            search = self.search()
            output = [*([] if search is None else [search]), self.message()]
        usage = None
        if self.usage is not None:
            read, written = self.usage
            usage = ResponseUsage(
                input_tokens=read, output_tokens=written, total_tokens=read + written
            )
        return ResponseObject(
            id=self.id,
            created_at=self.created_at,
            status=self.status,
            error=None if self.problem is None else ResponseError(message=self.problem),
            incomplete_details=Incomplete() if self.status == "incomplete" else None,
            output=output,
            usage=usage,
            **self.asked,
        )


class StreamRenderer:
    """The events of a response's stream, in OpenAI's order; each is numbered."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._number = 0
        self._searched = view.query is None
        self._opened = False

    def begin(self) -> Iterator[bytes]:
        """The first events."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self._view.object())

    def take(self, event: Event) -> Iterator[bytes]:
        """The events that an event of the answer makes; its end is for `end`."""
        match event:
            case SourcesFound(sources=sources) if not self._searched:
                own = [vars(source) for source in sources if source.side == "private"]
                self._view = replace(self._view, sources=own)
                yield from self._search()
            case TextDelta(text=text) if text:
                yield from self._open()
                yield self._part("response.output_text.delta", delta=text, logprobs=[])

    def end(self, view: View, dragon: BaseModel | None = None) -> Iterator[bytes]:
        """The last events of an answer that was finished."""
        self._view = view
        yield from self._open()
        part = view.part()
        for number, annotation in enumerate(part.annotations):
            yield self._part(
                "response.output_text.annotation.added",
                annotation_index=number,
                annotation=annotation,
            )
        yield self._part("response.output_text.done", text=part.text, logprobs=part.logprobs)
        yield self._part("response.content_part.done", part=part)
        yield self._item("response.output_item.done", view.message())
        whole = view.object().model_copy(update={"dragon": dragon})
        yield self._event(f"response.{view.status}", response=whole)

    def fail(self, message: str) -> Iterator[bytes]:
        """The last event of an answer that failed."""
        failed = replace(self._view, status="failed", problem=message)
        yield self._event("response.failed", response=failed.object())

    def _search(self) -> Iterator[bytes]:
        self._searched = True
        done = self._view.search()
        assert done is not None, "it is to be shown"
        begun = done.model_copy(update={"status": "in_progress", "results": None})
        yield self._event("response.output_item.added", output_index=0, item=begun)
        for kind in ("in_progress", "searching", "completed"):
            yield self._event(f"response.file_search_call.{kind}", output_index=0, item_id=done.id)
        yield self._event("response.output_item.done", output_index=0, item=done)

    def _open(self) -> Iterator[bytes]:
        if self._opened:
            return
        if not self._searched:
            yield from self._search()
        self._opened = True
        message = self._view.message().model_copy(update={"status": "in_progress", "content": []})
        yield self._item("response.output_item.added", message)
        yield self._part("response.content_part.added", part=OutputText(text="", annotations=[]))

    def _item(self, kind: str, item: BaseModel) -> bytes:
        return self._event(kind, output_index=self._place, item=item)

    def _part(self, kind: str, **fields: Any) -> bytes:
        place = {"output_index": self._place, "content_index": 0}
        return self._event(kind, item_id=f"msg_{self._view.key}", **place, **fields)

    @property
    def _place(self) -> int:
        return 0 if self._view.query is None else 1

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        data = orjson.dumps({"type": kind, "sequence_number": number, **fields}, default=_plain)
        return f"event: {kind}\ndata: ".encode() + data + b"\n\n"


def _plain(value: Any) -> Any:
    assert isinstance(value, BaseModel), "events hold models and plain values"
    return value.model_dump(mode="json")
