"""`WS /ws/chat`: the browser asks, stops and reads several answers over one socket."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketState

from app.api.respond import new_seed
from app.choices import Choice
from app.errors import INTERNAL, invalid, problem
from app.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    PeerStatus,
    PromptDetailed,
    SourcesFound,
    TextDelta,
)
from app.prompts import chat_prompt
from app.schemas import ChatMessage, Limit, Names, Seed, Temperature, as_messages
from app.state import AppState, State
from dragon.errors import InvalidRequestError, OverloadedError
from dragon.sampling import Mode, Sampling

log = logging.getLogger("dragon.socket")
router = APIRouter()
_MAX_ANSWERS = 8
_STATUS_SECONDS = 0.5
# Of a page that sends none: people who chat want the likely word, most of the time.
_TEMPERATURE = 0.3


class _Frame(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Params(_Frame):
    """How to answer; what is left out takes the settings' default."""

    temperature: Temperature | None = None
    max_tokens: Limit | None = None
    seed: Seed | None = None
    private: bool = False
    documents: Names | None = None
    collections: Names | None = None
    mode: Annotated[Mode | None, Field(strict=False)] = None


AnswerId = Annotated[str, Field(min_length=1, max_length=64)]


class Ask(_Frame):
    """Write an answer; every frame about it carries `id`."""

    type: Literal["ask"]
    id: AnswerId
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)]
    params: Params = Params()


class Stop(_Frame):
    """End an answer; what is written stands."""

    type: Literal["stop"]
    id: AnswerId


_FRAMES: TypeAdapter[Ask | Stop] = TypeAdapter(Annotated[Ask | Stop, Field(discriminator="type")])


@router.websocket("/ws/chat")
async def chat(socket: WebSocket, state: State) -> None:
    """Serve one page until it leaves; its answers end with it."""
    await socket.accept()
    await _Conversation(socket, state).run()


class _Conversation:
    """One open page: its answers in progress by id, and what it knows of the peer."""

    def __init__(self, socket: WebSocket, state: AppState) -> None:
        self._socket = socket
        self._state = state
        self._answers: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        status = asyncio.create_task(self._report_status())
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._received(message.get("text") or message.get("bytes") or b"")
        finally:
            tasks = [status, *self._answers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _received(self, data: str | bytes) -> None:
        answer_id: str | None = None
        try:
            frame = orjson.loads(data)
            if isinstance(frame, dict) and isinstance(frame.get("id"), str):
                answer_id = frame["id"][:64]
            self._act(_FRAMES.validate_python(frame))
            # Let a new answer begin: one that is cancelled before could not say so.
            await asyncio.sleep(0)
        except orjson.JSONDecodeError as error:
            await self._fail(
                answer_id, InvalidRequestError(f"The frame is not valid JSON: {error}")
            )
        except ValidationError as error:
            found = invalid(error.errors()[0], "A frame must be a JSON object of type ask or stop.")
            await self._send({"type": "error", "id": answer_id, **found.body()})
        except (InvalidRequestError, OverloadedError) as error:
            await self._fail(answer_id, error)

    def _act(self, frame: Ask | Stop) -> None:
        if isinstance(frame, Stop):
            # An answer that has just ended is not there any more: nothing to stop.
            task = self._answers.get(frame.id)
            if task is not None and not task.cancelling():
                task.cancel()
            return
        if frame.id in self._answers:
            raise InvalidRequestError("This id is in use by an answer in progress.", param="id")
        if len(self._answers) >= _MAX_ANSWERS:
            raise OverloadedError(f"At most {_MAX_ANSWERS} answers at once on one page.")
        task = asyncio.create_task(self._answer(frame))
        self._answers[frame.id] = task
        task.add_done_callback(lambda _: self._answers.pop(frame.id, None))

    async def _answer(self, frame: Ask) -> None:
        """Write one answer to the socket; cancelling it is how it is stopped."""
        answer: Choice | None = None
        try:
            request = await self._request(frame)
            answer = Choice(0, request)
            async with aclosing(self._state.generate(request)) as events:
                async for event in events:
                    answer.take(event)
                    await self._send(_told(frame.id, request, event))
        except asyncio.CancelledError:
            await self._send(_cancelled(frame.id, answer))
        except Exception as error:
            await self._fail(frame.id, error)

    async def _request(self, frame: Ask) -> GenerationRequest:
        params = frame.params
        prompt = await chat_prompt(self._state.generation, as_messages(frame.messages))
        mode = params.mode or self._state.settings.aggregation
        # Algorithm 1 is not defined in between.
        usual = 0.0 if mode is Mode.SPECULATIVE else _TEMPERATURE
        return GenerationRequest(
            conversation=prompt.tokens,
            query=prompt.query,
            sampling=Sampling(
                temperature=usual if params.temperature is None else params.temperature,
                seed=new_seed() if params.seed is None else params.seed,
            ),
            max_tokens=params.max_tokens,
            mode=mode,
            private=params.private,
            documents=params.documents,
            collections=params.collections,
        )

    async def _report_status(self) -> None:
        """Tell how the peer stands, now and on every change; a round trip alone is no change."""
        told: PeerStatus | None = None
        while True:
            now = self._state.generation.peer_state
            if told is None or _standing(now) != _standing(told):
                await self._send({"type": "status", "peer": asdict(now)})
                told = now
            await asyncio.sleep(_STATUS_SECONDS)

    async def _fail(self, answer_id: str | None, error: Exception) -> None:
        found = problem(error)
        if found is INTERNAL:
            log.error("an answer failed", exc_info=error)
        await self._send({"type": "error", "id": answer_id, **found.body()})

    async def _send(self, frame: dict[str, Any]) -> None:
        """Send, or do nothing when the page has left: `run` hears of that and ends everything."""
        if self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect):
                await self._socket.send_text(orjson.dumps(frame).decode())


def _standing(peer: PeerStatus) -> tuple[str, str, bool]:
    return peer.state, peer.detail, peer.rtt_ms is None


def _told(answer_id: str, request: GenerationRequest, event: Event) -> dict[str, Any]:
    match event:
        case SourcesFound(sources=sources, nothing_relevant=nothing_relevant):
            return {
                "type": "sources",
                "id": answer_id,
                "sources": [asdict(s) for s in sources],
                "nothing_relevant": nothing_relevant,
            }
        case TextDelta(text=text):
            return {"type": "token", "id": answer_id, "text": text}
        case Detailed(details=details) | PromptDetailed(details=details):
            tokens = [detail.provenance() for detail in details]
            return {"type": "detail", "id": answer_id, "tokens": tokens}
        case PeerChanged():
            return {"type": "peer", "id": answer_id, **asdict(event)}
        case Finished():
            return {
                "type": "done",
                "id": answer_id,
                "finish_reason": event.reason,
                "ledger": request.id,
                "usage": {
                    "prompt_tokens": event.prompt_tokens,
                    "completion_tokens": event.completion_tokens,
                },
                "dragon": {**event.stats, "participation": event.participation},
            }


def _cancelled(answer_id: str, answer: Choice | None) -> dict[str, Any]:
    return {
        "type": "done",
        "id": answer_id,
        "finish_reason": "cancelled",
        "ledger": answer.request.id if answer else None,
        "usage": {
            "prompt_tokens": len(answer.request.conversation) if answer else 0,
            "completion_tokens": len(answer.tokens) if answer else 0,
        },
        "dragon": {"participation": answer.participation if answer else []},
    }
