"""Ollama's API: chats and prompts, whole or as JSON lines; the models; embeddings."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from app.api.ollama.bodies import (
    USUAL_TEMPERATURE,
    OllamaBody,
    OllamaChatBody,
    OllamaEmbedBody,
    OllamaEmbeddingBody,
    OllamaGenerateBody,
    OllamaShowBody,
)
from app.api.openai.delivery import EventStream, begun, choice_of, respond, unless_gone
from app.api.openai.field_types import UNSENT
from app.api.openai.logprobs import Pairing, TokenLogprob, chat_logprobs
from app.api.openai.models import UnknownModelError, require_model
from app.api.openai.openapi import failures
from app.api.openai.parameters import chat_requests, completion_requests, reading_of
from app.api.openai.replies import DragonReply, dragon_reply
from app.api.openai.schemas import ChatBody
from app.container import AppState, State
from app.generation.events import Detailed, Event, GenerationRequest, TextDelta, TokenDetail
from app.problems import Problem
from dragon.inference.reading import PLAIN, AnswerReader, Reading, Said, read
from dragon.inference.tokenizer import Tokenizer

router = APIRouter(prefix="/api", tags=["ollama"])

VERSION = "0.12.0"
"""The version of Ollama that this API matches; programs refuse one that is too old."""


class OllamaReply(BaseModel):
    """The common fields of replies and their lines. Counts are tokens, durations nanoseconds."""

    model: str
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    done: bool
    done_reason: Annotated[Literal["stop", "length", "load"] | None, UNSENT] = None
    total_duration: Annotated[int | None, UNSENT] = None
    load_duration: Annotated[int | None, UNSENT] = None
    prompt_eval_count: Annotated[int | None, UNSENT] = None
    prompt_eval_duration: Annotated[int | None, UNSENT] = None
    eval_count: Annotated[int | None, UNSENT] = None
    eval_duration: Annotated[int | None, UNSENT] = None
    logprobs: Annotated[list[TokenLogprob] | None, UNSENT] = None
    dragon: Annotated[DragonReply | None, UNSENT] = None


class OllamaFunction(BaseModel):
    """The function of a call, with its arguments as an object."""

    name: str
    arguments: dict[str, Any]


class OllamaCall(BaseModel):
    id: str
    function: OllamaFunction


class OllamaTurn(BaseModel):
    """The assistant's turn, or a piece of it."""

    role: Literal["assistant"] = "assistant"
    content: str
    thinking: Annotated[str | None, UNSENT] = None
    tool_calls: Annotated[list[OllamaCall] | None, UNSENT] = None


class OllamaChatReply(OllamaReply):
    message: OllamaTurn

    @classmethod
    def of(cls, said: Said, **fields: Any) -> OllamaChatReply:
        """The reply with this content."""
        calls = [
            OllamaCall(
                id=each.id,
                function=OllamaFunction(name=each.name, arguments=json.loads(each.arguments)),
            )
            for each in said.calls
        ]
        message = OllamaTurn(
            content=said.text, thinking=said.reasoning or None, tool_calls=calls or None
        )
        return cls(message=message, **fields)


class OllamaGenerateReply(OllamaReply):
    response: str
    thinking: Annotated[str | None, UNSENT] = None

    @classmethod
    def of(cls, said: Said, **fields: Any) -> OllamaGenerateReply:
        """The reply with this content."""
        return cls(response=said.text, thinking=said.reasoning or None, **fields)


class LineRenderer:
    """Renders one reply; `reading` separates its calls and reasoning from the text.

    With `logprobs` tokens come with their log-probabilities, with `dragon` the end has its origin.
    """

    def __init__(
        self,
        body: OllamaBody,
        reply: type[OllamaChatReply | OllamaGenerateReply],
        request: GenerationRequest,
        tokenizer: Tokenizer,
        reading: Reading,
    ) -> None:
        self.choice = choice_of(request)
        self._body = body
        self._reply = reply
        self._tokenizer = tokenizer
        self._reading = reading
        self._reader = AnswerReader(reading)
        self._pairing = Pairing()
        self._began = time.monotonic_ns()

    def whole(self) -> bytes:
        answer = self.choice.answer
        scored = self._scored(answer.details) if self._body.logprobs else None
        return self._json(read(answer.text, self._reading), **self._end(), logprobs=scored)

    def begin(self) -> Iterator[bytes]:
        """Nothing: the first line has text."""
        return iter(())

    def take(self, _: int, event: Event) -> Iterator[bytes]:
        match event:
            case TextDelta() | Detailed() if self._body.logprobs:
                yield from self._scored_lines(self._pairing.take(event))
            case TextDelta(text=text) if said := self._reader.push(text):
                yield self._line(said)

    def end(self) -> Iterator[bytes]:
        """The rest of the text, and the line that says how the answer ended."""
        yield from self._scored_lines(self._pairing.rest())
        if said := self._reader.finish():
            yield self._line(said)
        yield self._json(Said(), **self._end()) + b"\n"

    def failed(self, found: Problem) -> bytes:
        """An error; no line with `done` follows it."""
        return orjson.dumps(found.as_ollama()) + b"\n"

    def _scored_lines(
        self, pairs: Iterator[tuple[TextDelta, list[TokenDetail]]]
    ) -> Iterator[bytes]:
        for piece, details in pairs:
            scores = self._scored(details)
            if (said := self._reader.push(piece.text)) or scores:
                yield self._line(said, logprobs=scores)

    def _end(self) -> dict[str, Any]:
        end = self.choice.answer.end
        total = time.monotonic_ns() - self._began
        first = min(total, int(1e6 * end.stats.get("ttft_ms", 0.0)))
        return {
            "done": True,
            "done_reason": end.reason,
            "total_duration": total,
            "load_duration": 0,
            "prompt_eval_count": end.prompt_tokens,
            "prompt_eval_duration": first,
            "eval_count": end.completion_tokens,
            "eval_duration": total - first,
            "dragon": dragon_reply([self.choice], self._body.dragon),
        }

    def _scored(self, details: Sequence[TokenDetail]) -> list[TokenLogprob]:
        return chat_logprobs(details, self._tokenizer).content

    def _line(self, said: Said, **fields: Any) -> bytes:
        return self._json(said, done=False, **fields) + b"\n"

    def _json(self, said: Said, **fields: Any) -> bytes:
        return self._reply.of(said, model=self._body.model, **fields).model_dump_json().encode()


_LINES: dict[str, Any] = {
    "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    "description": "At once if `stream` is false, else a line of JSON for each piece of it.",
}


class LineStream(EventStream):
    """JSON lines; these have no comments to keep a silent connection alive."""

    media_type = "application/x-ndjson"
    comment = b""


@router.post(
    "/chat", response_model=OllamaChatReply, responses={200: _LINES, **failures(404, 502, 503)}
)
async def chat(http: Request, body: OllamaChatBody, state: State) -> Response:
    """Answer a conversation."""
    return await _respond(http, state, body, OllamaChatReply)


@router.post(
    "/generate",
    response_model=OllamaGenerateReply,
    responses={200: _LINES, **failures(404, 502, 503)},
)
async def generate(http: Request, body: OllamaGenerateBody, state: State) -> Response:
    """Answer a prompt, continue it, or fill in the text between it and a suffix."""
    return await _respond(http, state, body, OllamaGenerateReply)


async def _respond(
    http: Request,
    state: AppState,
    body: OllamaChatBody | OllamaGenerateBody,
    reply: type[OllamaChatReply | OllamaGenerateReply],
) -> Response:
    require_model(body.name, state.generation.model_name)
    if not body.written:
        loaded = reply.of(Said(), model=body.model, done=True, done_reason="load")
        return Response(loaded.model_dump_json(), media_type="application/json")
    usual = USUAL_TEMPERATURE if state.generation.default_sampling.temperature is None else None
    asked, tokenizer, reading = body.as_openai(usual), state.generation.tokenizer, PLAIN
    if isinstance(asked, ChatBody):
        (request,) = await chat_requests(asked, state, "format")
        reading = reading_of(asked, request, tokenizer)
    else:
        (request,) = await completion_requests(asked, state, "format")
    renderer = LineRenderer(body, reply, request, tokenizer, reading)
    events = begun(state, [renderer.choice])
    return await respond(http, events, renderer, stream=body.stream is not False, kind=LineStream)


class OllamaDetails(BaseModel):
    """The kind of a model; unknown fields are empty."""

    parent_model: str = ""
    format: str = ""
    family: str = "dragon"
    families: list[str] = ["dragon"]
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaModel(BaseModel):
    """A model in the list. `digest` is of its name, `size` unknown."""

    name: str
    model: str
    modified_at: str
    size: int = 0
    digest: str
    details: OllamaDetails


class OllamaModelList(BaseModel):
    models: list[OllamaModel]


class OllamaShown(BaseModel):
    """The details of one model."""

    modified_at: str
    details: OllamaDetails
    model_info: dict[str, str | int]
    capabilities: list[str]
    template: str = ""
    parameters: str = ""
    license: str = ""


class OllamaVersion(BaseModel):
    version: str


class OllamaEmbeddings(BaseModel):
    """The vectors of the inputs; `total_duration` in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaEmbedding(BaseModel):
    """The vector of a text."""

    embedding: list[float]


@router.get("/version")
async def version() -> OllamaVersion:
    """The version of Ollama whose API this is."""
    return OllamaVersion(version=VERSION)


@router.get("/tags")
@router.get("/ps", name="running")
async def tags(state: State) -> OllamaModelList:
    """The language model and the embedder, which are always loaded."""
    names = (state.generation.model_name, state.embeddings.model_name)
    return OllamaModelList(
        models=[
            OllamaModel(
                name=name,
                model=name,
                modified_at=_since(state),
                digest=hashlib.sha256(name.encode()).hexdigest(),
                details=OllamaDetails(),
            )
            for name in names
        ]
    )


@router.post("/embeddings", responses=failures(404))
async def embed_prompt(http: Request, body: OllamaEmbeddingBody, state: State) -> OllamaEmbedding:
    """Embed one text, as older programs ask."""
    asked = OllamaEmbedBody(model=body.model, input=[body.prompt])
    return OllamaEmbedding(embedding=(await embed(http, asked, state)).embeddings[0])


@router.post("/show", responses=failures(404))
async def show(body: OllamaShowBody, state: State) -> OllamaShown:
    """A model's capabilities and its context length."""
    generation, embeddings = state.generation, state.embeddings
    tools = ["tools"] if generation.tokenizer.call_form is not None else []
    served = {
        generation.model_name: (generation.context_length, ["completion", *tools]),
        embeddings.model_name: (embeddings.context_length, ["embedding"]),
    }
    if body.name not in served:
        raise UnknownModelError(body.name, generation.model_name)
    context_length, capabilities = served[body.name]
    return OllamaShown(
        modified_at=_since(state),
        details=OllamaDetails(),
        model_info={
            "general.architecture": "dragon",
            "general.basename": body.name,
            "dragon.context_length": context_length,
        },
        capabilities=capabilities,
    )


@router.post("/embed", responses=failures(404))
async def embed(http: Request, body: OllamaEmbedBody, state: State) -> OllamaEmbeddings:
    """Embed one or several inputs with the model used to find documents."""
    require_model(body.name, state.embeddings.model_name)
    state.embeddings.require(body.dimensions)
    began = time.monotonic_ns()
    inputs: Sequence[str | list[int]] = body.input
    async with state.beside.one():
        if body.truncate is not False:
            inputs = await state.threads.run(lambda: [*map(state.embeddings.cut, body.input)])
        vectors, tokens = await unless_gone(http.receive, state.embeddings.embed(inputs))
    return OllamaEmbeddings(
        model=body.model,
        embeddings=vectors.tolist(),
        total_duration=time.monotonic_ns() - began,
        load_duration=0,
        prompt_eval_count=tokens,
    )


def _since(state: AppState) -> str:
    return datetime.fromtimestamp(state.started, UTC).isoformat()
