"""Requests in OpenAI's shapes, read by the rule of `field_types`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from app.api.openai.field_types import (
    NOTHING,
    PROMPT,
    SPELLINGS,
    STRUCTURED,
    JsonObject,
    Lenient,
    Limit,
    LogitBias,
    MinP,
    Names,
    Neutral,
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
    conflict,
)
from app.api.openai.structured import ResponseFormat, allowed_of, choice_of, held_to, schema_of
from app.api.openai.turns import MAX_TURNS, ChatMessage, ToolChoice, Tools
from app.generation.events import Details
from app.settings import Cloud
from dragon.inference import grammar
from dragon.protocol.messages import MAX_TOKENS
from dragon.sampling.params import MAX_GRAMMAR, Mode

MAX_CHOICES = 32
MAX_ALLOWED = 1024
_MOST_STOPS = 64
MAX_TEXT = 300_000
"""The most characters to tokenize, or ids to join, at a time."""


def unlimited(given: Any) -> Any:
    """None for other servers' values for no limit: -1, and Ollama's -2."""
    return None if given in (-1, -2) and not isinstance(given, bool) else given


UNLIMITED = BeforeValidator(unlimited)
MaxTokens = Annotated[Limit | None, UNLIMITED]
Token = Annotated[int, Field(ge=0, lt=1 << 31)]
Notation = Annotated[Str, Field(min_length=1, max_length=MAX_GRAMMAR)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
Turns = Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_TURNS)]


class AnswerOptions(Strict):
    """The parameters that REST's `dragon` object and the page share.

    `documents` (ids) and `collections` (names) limit which of the user's documents may be used.
    `cloud` says when the cloud is asked to take part; `private` is short for never.
    """

    top_k: Annotated[int, Field(ge=0, le=32)] | None = None
    private: bool = False
    cloud: Annotated[Cloud | None, Field(strict=False)] = None
    documents: Names | None = None
    collections: Names | None = None
    provenance: bool = False


class DragonOptions(AnswerOptions):
    """Our own parameters. Sending the object, even empty, requests `dragon` in the response.

    `epsilon` bounds what the cloud can learn of the passages used from the words it is sent. The
    answer is held to a `grammar` in Lark or GBNF, or to a `regex`. With `wait` its first token
    waits for the cloud, however long that takes.
    """

    aggregation: Annotated[Mode | None, Field(strict=False)] = None
    wait: bool = False
    epsilon: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    grammar: Notation | None = None
    regex: Notation | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.grammar and self.regex:
            raise conflict("dragon.regex", "contradicts grammar; send one of them")
        return self


class StreamOptions(Lenient):
    """What a stream contains besides text: usage, at its end or in every chunk."""

    AT: ClassVar = "stream_options."

    include_usage: bool = False
    continuous_usage_stats: bool | None = None
    # Padding against traffic analysis: OpenAI's clients may send either value.
    include_obfuscation: bool | None = None


class SamplingBody(Lenient):
    """Parameters of every request for text, as OpenAI and vLLM spell them."""

    SPELLINGS: ClassVar[Mapping[str, str]] = SPELLINGS
    NOTHING: ClassVar[frozenset[str]] = NOTHING

    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: Repetition | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: Seed | None = None
    max_tokens: MaxTokens = None
    stop: Stop = Field(default_factory=list)

    mirostat: Annotated[Any, Neutral(0)] = None
    tfs_z: Annotated[Any, Neutral(1)] = None
    typical_p: Annotated[Any, Neutral(0, 1)] = None


class GenerationBody(SamplingBody):
    """The common fields of completions and chats; `model` defaults to the language model."""

    model: Str | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    dragon: DragonOptions | None = None
    # The caller's own name; it changes nothing.
    user: str | None = None

    logit_bias: LogitBias | None = None
    min_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None

    stop_token_ids: Annotated[list[Token], Field(max_length=_MOST_STOPS)] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    prompt_logprobs: Top | None = None

    response_format: ResponseFormat | None = None
    guided_json: JsonObject | bool | Str | None = None
    guided_regex: Notation | None = None
    guided_grammar: Notation | None = None
    guided_choice: Annotated[list[Str], Field(min_length=1, max_length=1000)] | None = None
    allowed_token_ids: (
        Annotated[list[Token], Field(min_length=1, max_length=MAX_ALLOWED)] | None
    ) = None

    bad_words: Annotated[Any, Neutral([])] = None
    chat_template: Annotated[Any, Neutral("")] = None
    dry_multiplier: Annotated[Any, Neutral(0)] = None
    dynatemp_range: Annotated[Any, Neutral(0)] = None
    early_stopping: Annotated[Any, Neutral(False)] = None
    length_penalty: Annotated[Any, Neutral(1)] = None
    logits_processors: Annotated[Any, Neutral([])] = None
    mirostat_mode: Annotated[Any, Neutral(0)] = None
    top_a: Annotated[Any, Neutral(0)] = None
    top_n_sigma: Annotated[Any, Neutral(-1, 0)] = None
    use_beam_search: Annotated[Any, Neutral(False)] = None
    xtc_probability: Annotated[Any, Neutral(0)] = None

    @model_validator(mode="before")
    @classmethod
    def _unfolded(cls, given: Any) -> Any:
        """Move the members of `structured_outputs` beside the other parameters."""
        if not isinstance(given, dict) or not isinstance(given.get("structured_outputs"), dict):
            return given
        rest = {name: value for name, value in given.items() if name != "structured_outputs"}
        for name, value in given["structured_outputs"].items():
            if name == "json_object":
                rest |= {"guided_json": {"type": "object"}} if value else {}
            else:
                rest[STRUCTURED.get(name, f"structured_outputs.{name}")] = value
        return rest

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.stream_options and not self.stream:
            raise conflict("stream_options", "only allowed when stream is true")
        if self.prompt_logprobs is not None and self.stream:
            raise conflict("prompt_logprobs", "not sent in streams: leave out one of them")
        if self.truncate_prompt_tokens == 0:
            message = "a number of tokens, or -1 for as many as the model takes"
            raise conflict("truncate_prompt_tokens", message)
        return self

    @property
    def limit(self) -> int | None:
        """The most tokens of an answer, None for the default."""
        return self.max_tokens

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return 1

    @property
    def written(self) -> int:
        """How many answers are written to each prompt."""
        return self.n or 1

    @property
    def top(self) -> int | None:
        """How many of the likeliest tokens are reported at each place; None without scores."""
        raise NotImplementedError

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's own tokens are scored."""
        return self.prompt_logprobs is not None

    @property
    def details(self) -> Details | None:
        """The details requested for each token."""
        ranked = self.written > (self.n or 1)
        if self.top is None and not (self.scores_prompt or self.wants_provenance or ranked):
            return None
        return Details(max(self.top or 0, self.prompt_logprobs or 0), self.scores_prompt)

    @property
    def least_tokens(self) -> int:
        """The number of tokens before which the answer may not end."""
        return MAX_TOKENS if self.ignore_eos else self.min_tokens or 0

    @property
    def wants_provenance(self) -> bool:
        """Whether the response says where each token comes from."""
        return self.dragon is not None and self.dragon.provenance

    def grammar(self, format_param: str) -> tuple[str, str]:
        """The grammar of the answer, and the parameter that sets it; see `held_to`.

        `format_param` is what the client calls `response_format`.
        """
        own = self.dragon or DragonOptions()
        return held_to(
            {
                format_param: (ResponseFormat.grammar, self.response_format),
                "dragon.grammar": (grammar.of_text, own.grammar),
                "dragon.regex": (grammar.of_regex, own.regex),
                "guided_json": (schema_of, self.guided_json),
                "guided_regex": (grammar.of_regex, self.guided_regex),
                "guided_grammar": (grammar.of_text, self.guided_grammar),
                "guided_choice": (choice_of, self.guided_choice),
                "allowed_token_ids": (allowed_of, self.allowed_token_ids),
            }
        )


class CompletionBody(GenerationBody):
    """`POST /v1/completions`. The model reads `prompt` unchanged, without a template."""

    prompt: Annotated[list[str] | list[list[int]], Field(max_length=MAX_CHOICES), PROMPT]
    max_tokens: Annotated[Annotated[int, Field(ge=0, lt=1 << 31)] | None, UNLIMITED] = None
    best_of: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    echo: bool | None = None
    logprobs: Top | None = None
    suffix: Str | None = None

    @model_validator(mode="after")
    def _completion_agrees(self) -> Self:
        if self.max_tokens == 0 and not self.echo:
            message = "must be true when max_tokens is 0, else there is nothing to answer"
            raise conflict("echo", message)
        if self.written < (self.n or 1):
            raise conflict("best_of", "must be at least n")
        if self.written > (self.n or 1) and self.stream:
            message = "the best is known only once all answers are complete: leave out stream"
            raise conflict("best_of", message)
        for other in ("echo", "truncate_prompt_tokens"):
            if self.suffix and getattr(self, other):
                raise conflict("suffix", f"contradicts {other}; send one of them")
        return self

    @property
    def prompts(self) -> int:
        return len(self.prompt)

    @property
    def written(self) -> int:
        """Of `best_of` answers only the likeliest are returned."""
        return self.best_of or self.n or 1

    @property
    def top(self) -> int | None:
        return self.logprobs

    @property
    def scores_prompt(self) -> bool:
        return super().scores_prompt or bool(self.echo and self.logprobs is not None)


class RenderedBody(Lenient):
    """How the model's template renders a chat."""

    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: JsonObject | None = None
    enable_thinking: bool | None = None
    reasoning_effort: Effort | None = None
    tools: Tools = Field(default_factory=list)
    tool_choice: ToolChoice | None = None

    @property
    def may_call(self) -> bool:
        """Whether there are tools that the model may call."""
        return bool(self.tools) and self.tool_choice != "none"


class ChatBody(RenderedBody, GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Turns
    max_completion_tokens: MaxTokens = None
    truncation: Literal["auto", "disabled"] | None = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None
    parallel_tool_calls: bool | None = None

    audio: Annotated[Any, Neutral()] = None
    best_of: Annotated[Any, Neutral(1)] = None
    echo: Annotated[Any, Neutral(False)] = None
    function_call: Annotated[Any, Neutral("none")] = None
    functions: Annotated[Any, Neutral([])] = None
    modalities: Annotated[Any, Neutral(["text"])] = None
    moderation: Annotated[Any, Neutral()] = None
    web_search_options: Annotated[Any, Neutral()] = None

    @model_validator(mode="before")
    @classmethod
    def _scored(cls, given: Any) -> Any:
        """Read llama.cpp's `n_probs`, the number of likeliest tokens."""
        if not isinstance(given, dict) or not isinstance(given.get("n_probs"), int):
            return given
        rest = {name: value for name, value in given.items() if name != "n_probs"}
        top = given["n_probs"]
        return {**rest, "logprobs": True, "top_logprobs": top} if top else rest

    @model_validator(mode="after")
    def _chat_agrees(self) -> Self:
        limit = self.max_completion_tokens
        if self.top_logprobs is not None and not self.logprobs:
            raise conflict("top_logprobs", "only allowed when logprobs is true")
        if limit is not None and self.max_tokens not in (None, limit):
            raise conflict("max_completion_tokens", "contradicts max_tokens; send one of them")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class TokenizeBody(RenderedBody):
    """`POST /tokenize`: either a prompt or the messages of a chat; `model` may be the embedder's.

    `add_special_tokens` is for prompts; a chat has those of its template. llama.cpp calls the
    prompt `content`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}],
            "additionalProperties": True,
        }
    )
    SPELLINGS: ClassVar = {"content": "prompt", "add_special": "add_special_tokens"}
    NOTHING: ClassVar = frozenset({"parse_special"})

    model: Str | None = None
    prompt: Annotated[Str, Field(max_length=MAX_TEXT)] | None = None
    messages: Turns | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None

    chat_template: Annotated[Any, Neutral("")] = None


class DetokenizeBody(Lenient):
    """`POST /detokenize`."""

    model: Str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_TEXT)]
