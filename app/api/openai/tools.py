"""`tools`, `tool_choice` and turns with calls, as OpenAI spells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Protocol, TypeVar

from pydantic import Field

from app.api.openai.field_types import JsonObject, Str
from app.api.openai.spellings import Lenient
from app.generation.events import GenerationRequest
from dragon.errors import InvalidRequestError
from dragon.inference.reading import BEGIN, Reading
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.inference.tools import CallFormat, Tool

T = TypeVar("T")
MAX_TOOLS = 128
_END = 8  # last tokens of a prompt in which reasoning may begin

Name = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class FunctionBody(Lenient):
    """A function that may be called, with a JSON schema of its arguments."""

    AT: ClassVar = "tools[]."

    name: Name
    description: Str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class ToolBody(Lenient):
    """A tool: a function of the client's own."""

    AT: ClassVar = "tools[]."

    type: Literal["function"]
    function: FunctionBody

    def tool(self) -> Tool:
        """In the form that the model is given."""
        function = self.function
        parameters = {} if function.parameters is None else {"parameters": function.parameters}
        return Tool(function.name, function.description or "", **parameters)


class NamedFunction(Lenient):
    """The name of a function."""

    name: Name


class NamedTool(Lenient):
    """The one tool to call."""

    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[ToolBody], Field(max_length=MAX_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


class Calling(Protocol):
    """A request that may have tools."""

    @property
    def tools(self) -> Sequence[ToolBody]: ...

    @property
    def tool_choice(self) -> ToolChoice | None: ...

    @property
    def parallel_tool_calls(self) -> bool | None: ...


def reading_of(body: Calling, request: GenerationRequest, tokenizer: Tokenizer) -> Reading:
    """How to read the answer to a chat: whether it may call, and reason first."""
    end = tokenizer.decode(request.conversation[-_END:], special=True).rstrip()
    # An answer held to a grammar begins with that.
    return Reading(
        tokenizer.call_form if _may_call(body) else None,
        reasons=tokenizer.reasons,
        begun=end.endswith(BEGIN) and not request.sampling.grammar,
    )


def _may_call(body: Calling) -> bool:
    return bool(body.tools) and body.tool_choice != "none"


def require_tools(messages: Sequence[Message], tokenizer: Tokenizer) -> None:
    """Raises `InvalidRequestError` for turns with calls if the model's template has none."""
    called = any(message.calls or message.role == "tool" for message in messages)
    if called and tokenizer.call_form is None:
        raise _without("messages")


def _without(param: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{param}: this model's chat template has no tools, or calls them in a form that is "
        'not known here; use another model, or send tool_choice "none" and no calls',
        param=param,
    )


def offered(
    body: Calling, tokenizer: Tokenizer, messages: Sequence[Message]
) -> tuple[list[Tool], CallFormat | None]:
    """The tools that a model may call, and how it writes calls; None if it is to call none.

    Raises `InvalidRequestError` for a model whose chat template has no tools, even if only the
    messages have calls, and for a choice that is not among the tools.
    """
    if not body.tools and body.tool_choice not in (None, "none", "auto"):
        raise InvalidRequestError("tool_choice: there are no tools", param="tool_choice")
    form = tokenizer.call_form
    if _may_call(body) and form is None:
        raise _without("tools")
    require_tools(messages, tokenizer)
    if not _may_call(body):
        return [], None
    tools = [each.tool() for each in body.tools]
    choice = body.tool_choice
    if isinstance(choice, NamedTool) and choice.function.name not in {t.name for t in tools}:
        raise InvalidRequestError(
            f"tool_choice: there is no tool {choice.function.name!r}", param="tool_choice"
        )
    return tools, form


def calling(body: Calling, tools: Sequence[Tool], form: CallFormat) -> str:
    """The grammar of an answer that must call, empty if it need not."""
    choice = body.tool_choice
    if isinstance(choice, NamedTool):
        tools = [tool for tool in tools if tool.name == choice.function.name]
        return form.grammar(tools, parallel=False)
    if choice == "required":
        return form.grammar(tools, parallel=body.parallel_tool_calls is not False)
    return ""
