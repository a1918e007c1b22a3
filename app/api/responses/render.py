"""Responses as OpenAI's clients read them: an object at any moment, and the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.openai.delivery import Choice, named
from app.api.openai.field_types import UNSENT
from app.api.openai.logprobs import TokenLogprob, chat_logprobs
from app.api.openai.paging import Page
from app.api.openai.replies import DragonReply, dragon_reply
from app.api.responses.bodies import LOGPROBS, ResponseBody
from app.generation.events import Event, Source, SourcesFound, TextDelta
from app.problems import Problem
from dragon.inference.reading import PLAIN, AnswerReader, Reading, Said, read
from dragon.inference.tokenizer import Tokenizer

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


class FileCitation(BaseModel):
    """One of the user's documents that the text is based on; `index` is an offset in the text."""

    type: Literal["file_citation"] = "file_citation"
    index: int
    file_id: str
    filename: str


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[FileCitation]
    logprobs: list[TokenLogprob] = Field(default_factory=list)


class OutputMessage(BaseModel):
    id: str
    type: Literal["message"] = "message"
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]


class FunctionCall(BaseModel):
    """A function that the model calls; `arguments` is the text of a JSON object."""

    id: str
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    call_id: str
    name: str
    arguments: str


class FoundFile(BaseModel):
    """A passage that was found, made from the fields of a `Source`."""

    file_id: Annotated[str, Field(validation_alias="id")]
    filename: Annotated[str, Field(validation_alias="title")]
    score: float
    text: str
    attributes: dict[str, str] = Field(default_factory=dict)


class FileSearchCall(BaseModel):
    """A search of the user's documents, with `results` if requested."""

    id: str
    type: Literal["file_search_call"] = "file_search_call"
    status: Literal["in_progress", "searching", "completed"]
    queries: list[str]
    results: list[FoundFile] | None = None


class ReasoningText(BaseModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class Reasoning(BaseModel):
    """The model's reasoning before it answered."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    status: Literal["in_progress", "completed"]
    summary: list[dict[str, str]] = Field(default_factory=list)
    content: list[ReasoningText]


Output = FileSearchCall | Reasoning | OutputMessage | FunctionCall


class InputDetails(BaseModel):
    """Details of the prompt's tokens."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetails(BaseModel):
    """Details of the answer's tokens."""

    reasoning_tokens: int = 0


class ResponseUsage(BaseModel):
    """Tokens of the conversation and of the answer; retrieved documents do not count."""

    input_tokens: int
    input_tokens_details: InputDetails = InputDetails()
    output_tokens: int
    output_tokens_details: OutputDetails = OutputDetails()
    total_tokens: int


class ResponseError(BaseModel):
    code: Literal["server_error"] = "server_error"
    message: str


class Incomplete(BaseModel):
    """Why it ended early."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseObject(BaseModel):
    """OpenAI's `response` object; unset fields have their defaults."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[Output]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    store: bool
    temperature: float
    text: dict[str, Any] = {"format": {"type": "text"}}
    tool_choice: Any = "auto"
    tools: list[dict[str, Any]]
    top_p: float
    truncation: Literal["auto", "disabled"] = "disabled"
    usage: ResponseUsage | None = None
    metadata: dict[str, str]
    dragon: Annotated[DragonReply | None, UNSENT] = None


class InputItem(BaseModel):
    """An item of the input: a message, a call or a function's result."""

    id: str
    type: Literal["message", "function_call", "function_call_output"]
    status: Literal["completed"] = "completed"
    role: Annotated[str | None, UNSENT] = None
    content: Annotated[list[dict[str, Any]] | None, UNSENT] = None
    call_id: Annotated[str | None, UNSENT] = None
    name: Annotated[str | None, UNSENT] = None
    arguments: Annotated[str | None, UNSENT] = None
    output: Annotated[str | None, UNSENT] = None


InputItems = Page[InputItem]


@dataclass(frozen=True)
class ResponseView:
    """A response as it stands: what was asked, and the answer so far.

    `asked` has the fields of the object that the request sets; `query` is None if the search is not
    to be shown; `sources` are the user's own, as in `events.Source`. `reading` separates calls and
    reasoning from what was `written`.
    """

    key: str
    created_at: int
    asked: Mapping[str, Any]
    query: str | None = None
    results: bool = False
    reading: Reading = PLAIN
    status: Status = "in_progress"
    written: str = ""
    sources: Sequence[Mapping[str, Any]] = ()
    logprobs: Sequence[TokenLogprob] = ()
    usage: tuple[int, int] | None = None
    problem: str | None = None

    @cached_property
    def _said(self) -> Said:
        return read(self.written, self.reading)

    @property
    def text(self) -> str:
        """The text without reasoning and calls."""
        return self._said.text

    @property
    def calls(self) -> list[FunctionCall]:
        """The functions that are called."""
        return [
            FunctionCall(
                id=f"fc_{self.key}_{number}",
                status="completed",
                # Must be the same for as long as the response is stored.
                call_id=f"call_{self.key}_{number}",
                name=call.name,
                arguments=call.arguments,
            )
            for number, call in enumerate(self._said.calls)
        ]

    @property
    def speaks(self) -> bool:
        """Whether there is a message: not if the answer consists of calls only."""
        return bool(self.text) or not self.calls

    def reasoning(self, text: str) -> Reasoning:
        return Reasoning(
            id=f"rs_{self.key}", status="completed", content=[ReasoningText(text=text)]
        )

    def search(self) -> FileSearchCall | None:
        """The completed call of the search; None if it is not to be shown."""
        if self.query is None:
            return None
        found = [FoundFile.model_validate(source) for source in self.sources]
        return FileSearchCall(
            id=f"fs_{self.key}",
            status="completed",
            queries=[self.query],
            results=found if self.results else None,
        )

    def part(self) -> OutputText:
        """The text; the user's documents that it is based on are cited at its end, each once."""
        titles = {source["id"]: source["title"] for source in self.sources}
        cited = [
            FileCitation(index=len(self.text), file_id=identity, filename=title)
            for identity, title in titles.items()
        ]
        return OutputText(text=self.text, annotations=cited, logprobs=list(self.logprobs))

    def message(self) -> OutputMessage:
        status = self.status if self.status in ("in_progress", "completed") else "incomplete"
        return OutputMessage(id=f"msg_{self.key}", status=status, content=[self.part()])

    def object(self) -> ResponseObject:
        """The whole response, with the completed output."""
        output: list[Output] = []
        if self.status != "in_progress":
            search, thought = self.search(), self._said.reasoning
            output += [search] if search is not None else []
            output += [self.reasoning(thought)] if thought else []
            output += [self.message()] if self.speaks else []
            output += self.calls
        usage = None
        if self.usage is not None:
            read, written = self.usage
            usage = ResponseUsage(
                input_tokens=read, output_tokens=written, total_tokens=read + written
            )
        return ResponseObject(
            id=f"resp_{self.key}",
            created_at=self.created_at,
            status=self.status,
            error=None if self.problem is None else ResponseError(message=self.problem),
            incomplete_details=Incomplete() if self.status == "incomplete" else None,
            output=output,
            usage=usage,
            **self.asked,
        )


class ResponseRenderer:
    """Renders one response, at once or as a stream of numbered events in OpenAI's order.

    `view` is the response before anything is written. Calls come after all text, each complete, as
    the model wrote them.
    """

    def __init__(
        self, body: ResponseBody, choice: Choice, view: ResponseView, tokenizer: Tokenizer
    ) -> None:
        self._body = body
        self._choice = choice
        self._view = view
        self._tokenizer = tokenizer
        self._reader = AnswerReader(view.reading)
        self._number = 0
        self._places = 0  # items begun so far
        self._searched = view.query is None
        self._opened = False
        self._said = 0  # characters
        self._thoughts = ""  # of reasoning that has not ended yet

    def whole(self) -> bytes:
        return self._finished(self._ended()).model_dump_json().encode()

    def begin(self) -> Iterator[bytes]:
        for kind in ("created", "in_progress"):
            yield self._event(kind, response=self._view.object())

    def take(self, _: int, event: Event) -> Iterator[bytes]:
        match event:
            case SourcesFound(sources=sources) if not self._searched:
                self._view = replace(self._view, sources=_own(sources))
                yield from self._search()
            case TextDelta(text=text):
                said = self._reader.push(text)
                yield from self._think(said.reasoning)
                yield from self._say(said.text)

    def end(self) -> Iterator[bytes]:
        self._view = view = self._ended()
        yield from self._search()
        yield from self._think(self._reader.finish().reasoning)
        yield from self._thought()
        if view.speaks:
            yield from self._close(view)
        for call in view.calls:
            begun = call.model_copy(update={"status": "in_progress", "arguments": ""})
            yield self._begun(begun)
            kind, told = "function_call_arguments", call.arguments
            yield self._of_item(f"{kind}.delta", call.id, delta=told)
            yield self._of_item(f"{kind}.done", call.id, name=call.name, arguments=told)
            yield self._item("done", call)
        yield self._event(view.status, response=self._finished(view))

    def failed(self, found: Problem) -> bytes:
        failed = replace(self._view, status="failed", problem=found.message)
        return self._event("failed", response=failed.object())

    def _ended(self) -> ResponseView:
        answer = self._choice.answer
        logprobs = chat_logprobs(answer.details, self._tokenizer).content
        return replace(
            self._view,
            status="completed" if answer.end.reason == "stop" else "incomplete",
            written=answer.text,
            sources=_own(answer.sources),
            logprobs=logprobs if LOGPROBS in self._body.include else (),
            usage=(answer.end.prompt_tokens, answer.end.completion_tokens),
        )

    def _finished(self, view: ResponseView) -> ResponseObject:
        """The whole response, with the answer's origin if requested."""
        dragon = dragon_reply([self._choice], self._body.dragon)
        return view.object().model_copy(update={"dragon": dragon})

    def _search(self) -> Iterator[bytes]:
        if self._searched:
            return
        self._searched = True
        done = self._view.search()
        assert done is not None, "it is to be shown"
        yield self._begun(done.model_copy(update={"status": "in_progress", "results": None}))
        for kind in ("in_progress", "searching", "completed"):
            yield self._of_item(f"file_search_call.{kind}", done.id)
        yield self._item("done", done)

    def _think(self, text: str) -> Iterator[bytes]:
        if not text:
            return
        item = self._view.reasoning(text)
        if not self._thoughts:
            yield from self._search()
            begun = item.model_copy(update={"status": "in_progress", "content": []})
            yield self._begun(begun)
        self._thoughts += text
        yield self._of_item("reasoning_text.delta", item.id, content_index=0, delta=text)

    def _thought(self) -> Iterator[bytes]:
        """The end of the reasoning, if it has not ended yet."""
        if not self._thoughts:
            return
        done = self._view.reasoning(self._thoughts)
        yield self._of_item("reasoning_text.done", done.id, content_index=0, text=self._thoughts)
        yield self._item("done", done)
        self._thoughts = ""

    def _say(self, text: str) -> Iterator[bytes]:
        if text:
            yield from self._open()
            self._said += len(text)
            yield self._part("output_text.delta", delta=text, logprobs=[])

    def _open(self) -> Iterator[bytes]:
        if self._opened:
            return
        yield from self._search()
        yield from self._thought()
        self._opened = True
        message = self._view.message()
        yield self._begun(message.model_copy(update={"status": "in_progress", "content": []}))
        yield self._part("content_part.added", part=OutputText(text="", annotations=[]))

    def _close(self, view: ResponseView) -> Iterator[bytes]:
        yield from self._say(view.text[self._said :])
        yield from self._open()
        part = view.part()
        for number, each in enumerate(part.annotations):
            kind = "output_text.annotation.added"
            yield self._part(kind, annotation_index=number, annotation=each)
        yield self._part("output_text.done", text=part.text, logprobs=part.logprobs)
        yield self._part("content_part.done", part=part)
        yield self._item("done", view.message())

    def _begun(self, item: Output) -> bytes:
        self._places += 1
        return self._item("added", item)

    def _item(self, what: str, item: Output) -> bytes:
        return self._event(f"output_item.{what}", output_index=self._places - 1, item=item)

    def _of_item(self, kind: str, item_id: str, **fields: Any) -> bytes:
        return self._event(kind, output_index=self._places - 1, item_id=item_id, **fields)

    def _part(self, kind: str, **fields: Any) -> bytes:
        return self._of_item(kind, f"msg_{self._view.key}", content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return named(f"response.{kind}", sequence_number=number, **fields)


def _own(sources: Sequence[Source]) -> list[dict[str, Any]]:
    return [vars(source) for source in sources if source.side == "private"]
