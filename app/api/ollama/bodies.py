"""Requests in Ollama's shapes, and the equivalent requests in OpenAI's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from app.api.openai.embeddings import MAX_INPUTS
from app.api.openai.field_types import (
    LISTED,
    NOTHING,
    JsonObject,
    Lenient,
    Limit,
    Neutral,
    Str,
    Top,
    invalid,
    unicode_within,
)
from app.api.openai.schemas import (
    ChatBody,
    CompletionBody,
    DragonOptions,
    SamplingBody,
    unlimited,
)
from app.api.openai.turns import (
    MAX_TOOLS,
    CallBody,
    CalledFunction,
    ChatMessage,
    Name,
    OfAnAssistant,
    ToolBody,
    Tools,
)

USUAL_TEMPERATURE = 0.8
"""Ollama's default, if neither the request nor the model sets one."""


class OllamaOptions(SamplingBody):
    """Options of a request to a model; those about loading it are accepted without effect."""

    AT: ClassVar = "options."
    NOTHING: ClassVar = NOTHING | {
        "f16_kv", "low_vram", "main_gpu", "num_batch", "num_gpu", "num_thread", "numa", "use_mlock",
        "use_mmap",
    }  # fmt: skip

    max_tokens: Annotated[
        Limit | None,
        BeforeValidator(
            lambda most: None if type(most) is int and most == 0 else unlimited(most),
            json_schema_input_type=Annotated[int, Field(ge=-2, lt=1 << 31)] | None,
        ),
    ] = None


def _format(given: Any) -> Any:
    """What `json`, a JSON schema or an empty text asks for, as `response_format`."""
    if given == "":
        return None
    if given == "json":
        return {"type": "json_object"}
    if not isinstance(given, dict):
        raise invalid("must be 'json' or a JSON schema")
    return {"type": "json_schema", "schema": unicode_within(given)}


Format = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_format, json_schema_input_type=Literal["json", ""] | dict[str, Any] | None),
]


class _Named(Lenient):
    """A request that names a model; older programs do so by `name`."""

    SPELLINGS: ClassVar = {"name": "model"}

    model: Annotated[Str, Field(min_length=1)]

    @property
    def name(self) -> str:
        """The model's name here: Ollama's programs add a default tag to a name without one."""
        return self.model.removesuffix(":latest")


class OllamaBody(_Named):
    """The common fields of requests for text. They stream unless `stream` is false."""

    options: OllamaOptions = OllamaOptions()
    stream: bool | None = None
    dragon: DragonOptions | None = None
    # Models stay loaded here.
    keep_alive: float | str | None = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None

    format: Format = None
    think: bool | Literal["low", "medium", "high"] | None = None
    truncate: bool | None = None
    shift: bool | None = None

    def _shared(self, usual_temperature: float | None) -> dict[str, Any]:
        """The common fields of a chat and a completion."""
        return {
            "model": self.name,
            "temperature": usual_temperature,
            **self.options.model_dump(exclude_none=True),
            "response_format": self.format,
            "dragon": self.dragon,
        }

    def _chat(
        self,
        messages: Sequence[ChatMessage],
        usual_temperature: float | None,
        tools: Sequence[ToolBody] = (),
    ) -> ChatBody:
        shown = {
            "messages": list(messages),
            "tools": list(tools),
            "logprobs": self.logprobs,
            "top_logprobs": self.top_logprobs if self.logprobs else None,
            "enable_thinking": self.think if isinstance(self.think, bool) else None,
            "reasoning_effort": self.think if isinstance(self.think, str) else None,
            "truncation": "disabled" if self.truncate is False else "auto",
        }
        return ChatBody.model_validate(shown | self._shared(usual_temperature))


class OllamaFunction(Lenient):
    """A called function, with its arguments as an object."""

    name: Name
    arguments: JsonObject = Field(default_factory=dict)
    index: int | None = None


class OllamaCall(Lenient):
    function: OllamaFunction
    id: Str | None = None
    type: Literal["function"] | None = None


class OllamaMessage(Lenient):
    """A turn of a chat. A tool result names the tool, or the call."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Str = ""
    tool_calls: Annotated[list[OllamaCall], Field(max_length=MAX_TOOLS), OfAnAssistant] = Field(
        default_factory=list
    )
    tool_name: Str | None = None
    tool_call_id: Str | None = None
    images: Annotated[Any, Neutral([])] = None
    thinking: Str | None = None

    def turn(self, number: int) -> ChatMessage:
        """The turn in OpenAI's shape; calls without ids are numbered within turn `number`."""
        calls = [
            CallBody(
                id=call.id or f"call_{number}_{place}",
                function=CalledFunction(
                    name=call.function.name, arguments=json.dumps(call.function.arguments)
                ),
            )
            for place, call in enumerate(self.tool_calls)
        ]
        return ChatMessage(
            role=self.role,
            content=self.content,
            reasoning_content=self.thinking or None,
            tool_calls=calls or None,
            tool_call_id=self.tool_call_id if self.role == "tool" else None,
        )


class OllamaChatBody(OllamaBody):
    """`POST /api/chat`. Without messages nothing is written: the model is already loaded."""

    messages: Annotated[list[OllamaMessage], Field(max_length=2048)] = Field(default_factory=list)
    tools: Tools = Field(default_factory=list)

    @property
    def written(self) -> bool:
        """Whether anything is to be written."""
        return bool(self.messages)

    def as_openai(self, usual_temperature: float | None) -> ChatBody:
        """The equivalent request in OpenAI's shape."""
        turns = [turn.turn(number) for number, turn in enumerate(self.messages)]
        return self._chat(turns, usual_temperature, self.tools)


class OllamaGenerateBody(OllamaBody):
    """`POST /api/generate`: a prompt under the chat template or, if `raw`, unchanged.

    With a `suffix`, the model writes the text between the two. With neither it writes nothing: it
    is already loaded.
    """

    prompt: Str = ""
    system: Str = ""
    raw: bool | None = None
    suffix: Str = ""

    template: Annotated[Any, Neutral("")] = None
    context: Annotated[Any, Neutral([])] = None
    images: Annotated[Any, Neutral([])] = None

    @property
    def written(self) -> bool:
        """Whether anything is to be written."""
        return bool(self.prompt or self.suffix)

    def as_openai(self, usual_temperature: float | None) -> ChatBody | CompletionBody:
        """The equivalent request in OpenAI's shape."""
        if self.raw or self.suffix:
            top = (self.top_logprobs or 0) if self.logprobs else None
            shown = {"prompt": self.prompt, "suffix": self.suffix, "logprobs": top}
            return CompletionBody.model_validate(shown | self._shared(usual_temperature))
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        question = ChatMessage(role="user", content=self.prompt)
        return self._chat([*system, question], usual_temperature)


class OllamaEmbedBody(_Named):
    """`POST /api/embed`. Inputs that are too long are cut unless `truncate` is false."""

    input: Annotated[list[Str], Field(min_length=1, max_length=MAX_INPUTS), LISTED]
    truncate: bool | None = None
    keep_alive: float | str | None = None
    options: OllamaOptions | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


class OllamaEmbeddingBody(_Named):
    """`POST /api/embeddings`, the older form of `/api/embed`."""

    NOTHING: ClassVar = frozenset({"options", "keep_alive", "truncate"})

    prompt: Annotated[Str, Field(min_length=1)]


class OllamaShowBody(_Named):
    """`POST /api/show`."""

    verbose: bool | None = None
