"""Requests in Ollama's shapes, and the requests in OpenAI's that ask for the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.api.openai.field_types import (
    MinP,
    Penalty,
    Repetition,
    Seed,
    Stop,
    Str,
    Strict,
    Temperature,
    Top,
    TopK,
    TopP,
    neutral,
)
from app.api.openai.schemas import MAX_INPUTS, ChatBody, CompletionBody, DragonOptions

USUAL_TEMPERATURE = 0.8
"""Ollama's, where neither a request nor the model names one."""


class Options(Strict):
    """Options of a model that is asked; those about loading one are accepted without effect."""

    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repeat_penalty: Repetition | None = None
    seed: Seed | None = None
    num_predict: Annotated[int, Field(ge=-2, lt=1 << 31)] | None = None
    stop: Stop = Field(default_factory=list)
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None

    num_ctx: int | None = None
    num_batch: int | None = None
    num_gpu: int | None = None
    main_gpu: int | None = None
    num_thread: int | None = None
    num_keep: int | None = None
    numa: bool | None = None
    low_vram: bool | None = None
    f16_kv: bool | None = None
    use_mmap: bool | None = None
    use_mlock: bool | None = None
    repeat_last_n: int | None = None

    typical_p: Annotated[Any, neutral(1)] = None
    tfs_z: Annotated[Any, neutral(1)] = None
    mirostat: Annotated[Any, neutral(0)] = None
    mirostat_tau: Annotated[Any, neutral()] = None
    mirostat_eta: Annotated[Any, neutral()] = None
    penalize_newline: Annotated[Any, neutral()] = None


class _Named(Strict):
    """Names a model."""

    model: Annotated[Str, Field(min_length=1)]

    @property
    def name(self) -> str:
        """The model's name here: Ollama's programs add the usual tag to one without."""
        return self.model.removesuffix(":latest")


class _Body(_Named):
    """What all requests that ask a model have. A stream unless `stream` is false."""

    options: Options | None = None
    stream: bool | None = None
    dragon: DragonOptions | None = None
    # Models stay loaded here.
    keep_alive: float | str | None = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None

    format: Annotated[Any, neutral("")] = None
    think: Annotated[Any, neutral(False)] = None

    def _shared(self, usual_temperature: float | None) -> dict[str, Any]:
        """The fields that a chat and a completion share."""
        options = self.options or Options()
        given = options.temperature
        # Below 0 is without a limit.
        limit = options.num_predict if (options.num_predict or 0) > 0 else None
        return {
            "model": self.name,
            "temperature": usual_temperature if given is None else given,
            "top_p": options.top_p,
            "top_k": options.top_k,
            "min_p": options.min_p,
            "repetition_penalty": options.repeat_penalty,
            "seed": options.seed,
            "max_tokens": limit,
            "stop": options.stop,
            "presence_penalty": options.presence_penalty,
            "frequency_penalty": options.frequency_penalty,
            "dragon": self.dragon,
        }

    def _chat(self, messages: list[dict[str, str]], usual_temperature: float | None) -> ChatBody:
        top = self.top_logprobs if self.logprobs else None
        shown = {"messages": messages, "logprobs": self.logprobs, "top_logprobs": top}
        return ChatBody.model_validate(shown | self._shared(usual_temperature))


class OllamaMessage(Strict):
    """A turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: Str = ""
    images: Annotated[Any, neutral([])] = None
    tool_calls: Annotated[Any, neutral([])] = None
    thinking: Annotated[Any, neutral("")] = None


class OllamaChatBody(_Body):
    """`POST /api/chat`. Without messages nothing is written: the model is loaded already."""

    messages: Annotated[list[OllamaMessage], Field(max_length=2048)] = Field(default_factory=list)
    tools: Annotated[Any, neutral([])] = None

    def as_openai(self, usual_temperature: float | None) -> ChatBody:
        """The same in OpenAI's shape."""
        turns = [{"role": turn.role, "content": turn.content} for turn in self.messages]
        return self._chat(turns, usual_temperature)


class OllamaGenerateBody(_Body):
    """`POST /api/generate`: a prompt under the chat template, or `raw`, as it stands.

    Without one nothing is written: the model is loaded already.
    """

    prompt: Str = ""
    system: Str = ""
    raw: bool | None = None

    suffix: Annotated[Any, neutral("")] = None
    template: Annotated[Any, neutral("")] = None
    context: Annotated[Any, neutral([])] = None
    images: Annotated[Any, neutral([])] = None

    def as_openai(self, usual_temperature: float | None) -> ChatBody | CompletionBody:
        """The same in OpenAI's shape."""
        if self.raw:
            top = (self.top_logprobs or 0) if self.logprobs else None
            shown = {"prompt": self.prompt, "logprobs": top}
            return CompletionBody.model_validate(shown | self._shared(usual_temperature))
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self._chat([*system, {"role": "user", "content": self.prompt}], usual_temperature)


class OllamaEmbedBody(_Named):
    """`POST /api/embed`. Inputs that are too long are cut unless `truncate` is false."""

    input: Annotated[
        list[Str],
        Field(min_length=1, max_length=MAX_INPUTS),
        BeforeValidator(
            lambda given: [given] if isinstance(given, str) else given,
            json_schema_input_type=str | list[str],
        ),
    ]
    truncate: bool | None = None
    keep_alive: float | str | None = None
    options: Options | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


class OllamaShowBody(_Named):
    """`POST /api/show`."""

    verbose: bool | None = None
