"""The Model Context Protocol's server: tools, documents, and the ledger of what is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, Field, ValidationError

from app.api.errors import validation_problem
from app.api.openai import files, search
from app.api.openai.delivery import begun, choice_of
from app.api.openai.field_types import Names, Str, Strict
from app.api.openai.parameters import chat_requests
from app.api.openai.schemas import ChatBody
from app.container import AppState
from app.documents.store import MAX_WINDOW
from app.generation.events import Source, SourcesFound
from app.ledger.writer import Passage, ProgramRead
from app.problems import reported
from app.settings import Cloud
from app.storage.tables import Status
from dragon.errors import DragonError
from dragon.inference.fairness import CALLER

INSTRUCTIONS = (
    "The private documents of the person on whose device this runs. Search or ask first, read "
    "around what was found, and cite documents by their titles. The device records what you read."
)
_SCHEME = "dragon://documents/"
_PAGE = 100
_LONGEST_NAME = 200

Context = ServerRequestContext[Any, Any]
A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True)
class ToolResult:
    """A tool's result, the passages in it and, if it is an answer, that answer's ledger id."""

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

    def described(self) -> Tool:
        return Tool(
            name=self.call.__name__,
            description=self.call.__doc__,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=self.asks_the_cloud),
        )


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

    `nothing_relevant`: none of the person's documents answers, though these passages are `closest`.
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
    # An assistant is given no more of the person's documents than it needs.
    closest = found.closest if found.nothing_relevant else ()
    # The ledger records only passages as read, hence without the text around them.
    result = AskResult(
        text=answer.text,
        sources=[replace(source, around="") for source in found.sources],
        nothing_relevant=found.nothing_relevant,
        closest=[replace(source, around="") for source in closest],
        ledger=request.id,
    )
    read = tuple(
        Passage(source.id, source.start or 0, source.end or 0)
        for source in (*found.sources, *closest)
        if source.side == "private"
    )
    return ToolResult(result, read, request.id)


_TOOLS: tuple[McpTool[Any], ...] = (
    McpTool(SearchArguments, search.SearchReply, search_documents),
    McpTool(AskArguments, AskResult, ask, asks_the_cloud=True),
    McpTool(ListArguments, files.FileList, list_documents),
    McpTool(PassageArguments, files.TextWindow, read_passage),
)
TOOLS = {tool.call.__name__: tool for tool in _TOOLS}


def build(state: AppState) -> Server[Any]:
    """The server of a running device."""
    handlers = _Handlers(state)
    return Server(
        "dragon",
        title="DRAGON",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


class _Handlers:
    """The server's handlers. The ledger records what is read before they return it."""

    def __init__(self, state: AppState) -> None:
        self._state = state

    async def list_tools(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool.described() for tool in TOOLS.values()])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        CALLER.set(f"mcp {_reader(context)}")
        if (tool := TOOLS.get(params.name)) is None:
            return _refusal(f"There is no tool {params.name!r}; there are {', '.join(TOOLS)}.")
        try:
            arguments = tool.arguments.model_validate(params.arguments or {})
            given = await tool.call(self._state, arguments)
            text = given.result.model_dump_json()
            await self._record(context, params.name, text, given)
        except ValidationError as error:
            # The first step stands for the input's own name, which messages leave out.
            detail = error.errors()[0]
            named = {**detail, "loc": ("arguments", *detail["loc"])}
            return _refusal(validation_problem(named, "The arguments are wrong.").message)
        except Exception as error:
            return _refusal(reported(error, f"the tool {params.name}").message)
        content = given.result.model_dump(mode="json")
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=content
        )

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        after = None if params is None else params.cursor
        try:
            page = await files.list_files(self._state.documents, limit=_PAGE, after=after)
            resources = [
                Resource(uri=f"{_SCHEME}{file.id}", name=file.filename, mime_type="text/plain")
                for file in page.data
                if file.status is Status.PROCESSED
            ]
            text = "".join(resource.name for resource in resources)
            await self._record(context, "list_resources", text, ToolResult(page))
        except Exception as error:
            raise _failure(error, "the list of documents") from error
        return ListResourcesResult(
            resources=resources, next_cursor=page.last_id if page.has_more else None
        )

    async def list_templates(
        self, _: Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        document = ResourceTemplate(
            uri_template=f"{_SCHEME}{{id}}",
            name="document",
            description=f"A document's text, at most {MAX_WINDOW} characters of it.",
            mime_type="text/plain",
        )
        return ListResourceTemplatesResult(resource_templates=[document])

    async def read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        try:
            name = params.uri.removeprefix(_SCHEME)
            window = await files.file_text(name, self._state.documents)
            given = ToolResult(window, (Passage(window.id, window.start, window.end),))
            await self._record(context, "read_resource", window.text, given)
        except Exception as error:
            raise _failure(error, "reading a document") from error
        place = {"start": window.start, "end": window.end, "length": window.length}
        contents = TextResourceContents(
            uri=params.uri, text=window.text, mime_type="text/plain", _meta=place
        )
        return ReadResourceResult(contents=[contents])

    async def _record(self, context: Context, tool: str, text: str, given: ToolResult) -> None:
        size = len(text.encode())
        await self._state.ledger.read(
            ProgramRead(_reader(context), tool, size, given.passages, given.answer)
        )


def _reader(context: Context) -> str:
    """The program's own name."""
    about = context.session.client_params
    if about is None:
        return "a program without a name"
    return f"{about.client_info.name} {about.client_info.version}"[:_LONGEST_NAME]


def _refusal(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


def _failure(error: Exception, what: str) -> MCPError:
    code = INVALID_PARAMS if isinstance(error, DragonError) else INTERNAL_ERROR
    return MCPError(code, reported(error, what).message)
