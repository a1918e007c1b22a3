"""The Model Context Protocol's server: tools and documents, and the ledger of what is read."""

from __future__ import annotations

from typing import Any

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
from pydantic import ValidationError

from app.api.errors import validation_problem
from app.api.mcp.tools import TOOLS, ToolResult, tool_named
from app.api.openai.files import file_text, list_files
from app.container import AppState
from app.documents.store import MAX_WINDOW
from app.ledger.reads import Passage, ProgramRead
from app.problems import reported
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
    """The server's handlers. What they return of documents is recorded in the ledger first."""

    def __init__(self, state: AppState) -> None:
        self._state = state

    async def list_tools(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=name,
                    description=tool.call.__doc__,
                    input_schema=tool.arguments.model_json_schema(),
                    output_schema=tool.result.model_json_schema(mode="serialization"),
                    annotations=ToolAnnotations(
                        read_only_hint=True, open_world_hint=tool.asks_the_cloud
                    ),
                )
                for name, tool in TOOLS.items()
            ]
        )

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        CALLER.set(f"mcp {_reader(context)}")
        try:
            tool = tool_named(params.name)
            arguments = tool.arguments.model_validate(params.arguments or {})
            given = await tool.call(self._state, arguments)
            text = given.result.model_dump_json()
            await self._record(context, tool.name, text, given)
        except ValidationError as error:
            # Its first step is the input's own name, which the messages leave out.
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
            page = await list_files(self._state.documents, limit=_PAGE, after=after)
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
        description = f"A document's text, at most {MAX_WINDOW} characters of it."
        document = ResourceTemplate(
            uri_template=f"{_SCHEME}{{id}}",
            name="document",
            description=description,
            mime_type="text/plain",
        )
        return ListResourceTemplatesResult(resource_templates=[document])

    async def read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        try:
            name = params.uri.removeprefix(_SCHEME)
            window = await file_text(name, self._state.documents)
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
