"""The tools: what a program may ask of the device, and which passages its results contain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field

from app.api.openai import files, search
from app.api.openai.delivery import begun, choice_of
from app.api.openai.field_types import Names, Str, Strict
from app.api.openai.parameters import chat_requests
from app.api.openai.schemas import ChatBody
from app.container import AppState
from app.documents.store import MAX_WINDOW
from app.generation.events import Source, SourcesFound
from app.ledger.reads import Passage
from app.settings import Cloud
from dragon.errors import InvalidRequestError

A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True)
class ToolResult:
    """A tool's result, the passages in it, and the ledger id of the answer it is, if any."""

    result: BaseModel
    passages: tuple[Passage, ...] = ()
    answer: str | None = None


@dataclass(frozen=True)
class McpTool(Generic[A]):
    """A tool: the docstring of `call` describes it to programs."""

    arguments: type[A]
    result: type[BaseModel]
    call: Callable[[AppState, A], Awaitable[ToolResult]]
    asks_the_cloud: bool = False

    @property
    def name(self) -> str:
        """Its name for programs."""
        return self.call.__name__


class SearchArguments(Strict):
    """What to look for; `documents` (ids) and `collections` (names) limit where."""

    query: Annotated[Str, Field(min_length=1, max_length=8192)]
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    documents: Names | None = None
    collections: Names | None = None


async def search_documents(state: AppState, arguments: SearchArguments) -> ToolResult:
    """Find passages of the person's private documents, those that fit best first.

    Nothing leaves the device for it. `start` and `end` are the passage's place in the document's
    text, around which `read_passage` reads more.
    """
    request = search.SearchRequest.model_validate(arguments, from_attributes=True)
    found = await search.search(request, state.documents)
    return ToolResult(found, tuple(Passage(hit.document, hit.start, hit.end) for hit in found.data))


class ListArguments(Strict):
    """Which documents: of one collection, behind the document `after`."""

    collection: Str | None = None
    after: Str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


async def list_documents(state: AppState, arguments: ListArguments) -> ToolResult:
    """List the person's documents, newest first: ids, file names and whether they can be found."""
    found = await files.list_files(state.documents, order="desc", **dict(arguments))
    return ToolResult(found)


class PassageArguments(Strict):
    """A document by its id, and a range of characters of its text."""

    document: Str
    start: Annotated[int, Field(ge=0)] = 0
    length: Annotated[int, Field(ge=1, le=MAX_WINDOW)] = 4000


async def read_passage(state: AppState, arguments: PassageArguments) -> ToolResult:
    """Read a part of a document's text, from character `start` on. Pages end with form feeds."""
    start = arguments.start
    end = start + arguments.length
    window = await files.file_text(arguments.document, state.documents, start, end)
    return ToolResult(window, (Passage(window.id, window.start, window.end),))


class AskArguments(Strict):
    """A question, and what may be used to answer it.

    `private` keeps it on the device, `cloud` says when the cloud peer is asked; by default what
    the person has set.
    """

    question: Annotated[Str, Field(min_length=1)]
    private: bool = False
    cloud: Annotated[Cloud | None, Field(strict=False)] = None
    documents: Names | None = None
    collections: Names | None = None


class AskResult(BaseModel):
    """The answer and the passages it was written from, private ones and the cloud's.

    `nothing_relevant`: none of the person's documents answers. `closest` are the passages nearest
    to the question beside the sources.
    `ledger` is the answer's id in the ledger, which says what left the device for it.
    """

    text: str
    sources: list[Source]
    nothing_relevant: bool
    closest: list[Source]
    ledger: str


async def ask(state: AppState, arguments: AskArguments) -> ToolResult:
    """Have the device answer a question, from the person's documents and if allowed the cloud's."""
    named = arguments.model_dump(mode="json", exclude={"question"})
    question = {"role": "user", "content": arguments.question}
    asked = {"messages": [question], "temperature": 0.0, "dragon": named}
    body = ChatBody.model_validate({"model": state.generation.model_name, **asked})
    (request,) = await chat_requests(body, state)
    choice = choice_of(request)
    answer = choice.answer
    async with aclosing(begun(state, [choice])) as events:
        async for _ in events:
            pass
    found = answer.found or SourcesFound(())
    result = AskResult(
        text=answer.text,
        sources=_replies(found.sources),
        nothing_relevant=found.nothing_relevant,
        closest=_replies(found.closest),
        ledger=request.id,
    )
    return ToolResult(result, _private((*found.sources, *found.closest)), request.id)


def _replies(sources: tuple[Source, ...]) -> list[Source]:
    """Sources without their surroundings: the ledger records only passages as read."""
    return [replace(source, around="") for source in sources]


def _private(sources: tuple[Source, ...]) -> tuple[Passage, ...]:
    return tuple(
        Passage(source.id, source.start or 0, source.end or 0)
        for source in sources
        if source.side == "private"
    )


_TOOLS: tuple[McpTool[Any], ...] = (
    McpTool(SearchArguments, search.SearchReply, search_documents),
    McpTool(AskArguments, AskResult, ask, asks_the_cloud=True),
    McpTool(ListArguments, files.FileList, list_documents),
    McpTool(PassageArguments, files.TextWindow, read_passage),
)
TOOLS = {tool.name: tool for tool in _TOOLS}


def tool_named(name: str) -> McpTool[Any]:
    """The tool with a name. Raises `InvalidRequestError`."""
    if name not in TOOLS:
        raise InvalidRequestError(f"There is no tool {name!r}; there are {', '.join(TOOLS)}.")
    return TOOLS[name]
