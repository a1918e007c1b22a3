"""`WS /ws/chat`: the browser asks, stops and reads several answers over one socket.

The device writes an answer whether or not a page reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from starlette.websockets import WebSocketState

from app.api.errors import validation_problem
from app.api.openai.field_types import Str, Strict
from app.api.page.conversations import summary, view
from app.api.page.markdown import Block, MarkdownStream
from app.api.page.parameters import Params, branch_request
from app.container import AppState, State
from app.conversations import record
from app.conversations.background_run import BackgroundRun
from app.documents.uploads import MAX_COLLECTION_CHARACTERS
from app.generation.events import GenerationRequest, PeerChanged, SourcesFound
from app.problems import reported
from app.settings import Cloud
from app.storage.tables import MessageState, StoredMessage
from dragon.errors import DragonError, InvalidRequestError, OverloadedError
from dragon.localizable import localizable, with_localizable

router = APIRouter()
_MAX_RUNS = 32
_STATUS_SECONDS = 0.5

Frame = dict[str, Any]
Id = Annotated[str, Field(min_length=1, max_length=64)]


class Say(Strict):
    """Ask in a conversation, a new one if none is named, after an earlier answer or at the top.

    A new conversation may belong to a project. The reply is a frame `began` with this `id`; those
    about the answer carry the answer's own id.
    """

    type: Literal["say"]
    id: Id
    conversation: Id | None = None
    parent: Id | None = None
    project: Annotated[str, Field(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    text: Annotated[Str, StringConstraints(min_length=1, pattern=r"\S")]
    params: Params = Params()


class Again(Strict):
    """Another answer to the question `message`; the reply is that to `say`.

    With `other` it is written on the device, from passages that no answer to it has quoted yet.
    """

    type: Literal["again"]
    id: Id
    message: Id
    other: bool = False
    params: Params = Params()


class Continue(Strict):
    """Continue an answer that has ended; the reply is that to `say`."""

    type: Literal["continue"]
    id: Id
    message: Id
    params: Params = Params()


class Watch(Strict):
    """Read an answer from its beginning; one that has ended comes in a frame `message`."""

    type: Literal["watch"]
    id: Id


class Stop(Strict):
    """End an answer; what is written stays."""

    type: Literal["stop"]
    id: Id


Incoming = Say | Again | Continue | Watch | Stop
INCOMING: TypeAdapter[Incoming] = TypeAdapter(Annotated[Incoming, Field(discriminator="type")])


async def frames(run: BackgroundRun) -> AsyncGenerator[Frame, None]:
    """The frames of a background run from its beginning to its end: events, and blocks of HTML.

    An open block is sent again as it grows.
    """
    markdown, written = MarkdownStream(), run.written
    index, shown = 0, ""
    async with aclosing(run.follow()) as batches:
        async for events in batches:
            over = run.over
            seams = [(at, joint) for at, joint, _ in written.seams]
            markdown.grow(written.text, seams, written.phrases)
            blocks = [
                _block(run, part) for part in (markdown.finish() if over else markdown.take())
            ]
            for event in events:
                if isinstance(event, SourcesFound):
                    yield {"type": "sources", "id": run.id, **record.sources(event)}
                elif isinstance(event, PeerChanged):
                    yield {"type": "peer", "id": run.id, **with_localizable(asdict(event))}
            for block in blocks:
                yield block | {"index": index, "open": False}
                index += 1
            last = markdown.open()
            if not over and last is not None and last.text != shown:
                shown = last.text
                yield _block(run, last) | {"index": index, "open": True}
    if written.ending is not None:
        kind = "error" if written.ending.problem else "done"
        yield {"type": kind, "id": run.id, **written.end(), "phrases": written.phrases}


def _block(run: BackgroundRun, part: Block) -> Frame:
    """A block; `start` is the character offset of its Markdown `text` in the answer.

    `tail` is the end of it that is not in `html` yet. `tokens` counts those so far, in `ms` since
    the first.
    """
    tokens = 0 if run.written.answer is None else len(run.written.answer.tokens)
    times = {"tokens": tokens, "ms": run.milliseconds}
    return {"type": "block", "id": run.id, **asdict(part), **times}


@router.websocket("/ws/chat")
async def chat(socket: WebSocket, state: State) -> None:
    """Serve one page until it leaves."""
    await socket.accept()
    await _Page(socket, state).run()


class _Page:
    """One open page, and the answers it reads by id."""

    def __init__(self, socket: WebSocket, state: AppState) -> None:
        self._socket = socket
        self._state = state
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        status = asyncio.create_task(self._report_status())
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._received(message.get("text") or message.get("bytes") or b"")
        finally:
            tasks = [status, *self._reading.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _received(self, data: str | bytes) -> None:
        answer_id: str | None = None
        try:
            frame = orjson.loads(data)
            if isinstance(frame, dict) and isinstance(frame.get("id"), str):
                answer_id = frame["id"][:64]
            await self._act(INCOMING.validate_python(frame))
            # Let a new answer's task begin: one cancelled before that could not report it.
            await asyncio.sleep(0)
            return
        except orjson.JSONDecodeError as error:
            wrong = InvalidRequestError(f"The frame is not valid JSON: {error}")
            found = reported(wrong, "a frame")
        except ValidationError as error:
            unreadable = "A frame must be a JSON object of a known type."
            found = validation_problem(error.errors()[0], unreadable)
        except DragonError as error:
            found = reported(error, "an answer")
        await self._send({"type": "error", "id": answer_id, **found.shown()})

    async def _act(self, frame: Incoming) -> None:
        if not isinstance(frame, Watch | Stop):
            await self._write(frame)
            return
        run = self._state.background_runs.get(frame.id)
        if isinstance(frame, Stop):
            if run is not None:  # one that has just ended is no longer there
                run.stop()
        elif run is not None:
            self._read(run)
        else:
            message = await self._state.conversations.message(frame.id)
            whole = await asyncio.to_thread(view, message)
            await self._send({"type": "message", "id": frame.id, "message": whole})

    async def _write(self, frame: Say | Again | Continue) -> None:
        if self._state.background_runs.count >= _MAX_RUNS:
            most = "At most {count} answers are written at once."
            raise OverloadedError(localizable("device.runs", most, count=_MAX_RUNS))
        store, private = self._state.conversations, frame.params.private
        if isinstance(frame, Say):
            asked = (frame.conversation, frame.parent, frame.text)
            _, _, answer = await store.ask(*asked, private=private, project=frame.project)
        elif isinstance(frame, Again):
            _, _, answer = await store.answer_again(frame.message, private=private)
        else:
            answer = await store.reopen(frame.message, private=private)
        try:
            await self._begin(frame, answer)
        except BaseException:
            # Nobody writes it: in the writing state, it could not be continued.
            await store.save(answer.id, MessageState.STOPPED, answer.text, answer.record)
            raise

    async def _begin(self, frame: Say | Again | Continue, answer: StoredMessage) -> None:
        """Write a stored answer, or continue its text."""
        store = self._state.conversations
        conversation = await store.get(answer.conversation_id)
        path = await store.path(answer.id)
        began = {"conversation": summary(conversation), "question": view(path[-2])}
        await self._send({"type": "began", "id": frame.id, **began, "answer": view(answer)})
        kept = {"private": True, "cloud": None} if answer.private else {}
        params = frame.params.model_copy(update=kept)

        async def prepare() -> tuple[GenerationRequest, int]:
            request, left_out = await branch_request(
                self._state, path, answer.text, params, conversation.project
            )
            if isinstance(frame, Again) and frame.other:
                quoted = tuple(each.text for each in await store.answers(frame.message))
                # The nearest passages left, whether or not they are judged to answer.
                request = replace(request, cloud=Cloud.NEVER, judged=False, passed_over=quoted)
            return request, left_out

        self._read(self._state.background_runs.start(answer, prepare))

    def _read(self, run: BackgroundRun) -> None:
        """Send the page an answer from its beginning; a second call starts over."""
        if (before := self._reading.get(run.id)) is not None:
            before.cancel()

        async def read() -> None:
            async with aclosing(frames(run)) as messages:
                async for message in messages:
                    await self._send(message)

        def ended(task: asyncio.Task[None]) -> None:
            if self._reading.get(run.id) is task:
                del self._reading[run.id]

        task = self._reading[run.id] = asyncio.create_task(read())
        task.add_done_callback(ended)

    async def _report_status(self) -> None:
        """Report the peer's status, now and on every change except the round trip's."""
        last: tuple[str, str, bool] | None = None
        while True:
            peer = self._state.generation.peer_state
            if (now := (peer.state, peer.detail, peer.rtt_ms is None)) != last:
                await self._send({"type": "status", "peer": with_localizable(asdict(peer))})
                last = now
            await asyncio.sleep(_STATUS_SECONDS)

    async def _send(self, frame: Frame) -> None:
        """Send, or do nothing if the page has left: `run` notices and ends everything."""
        if self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect):
                await self._socket.send_text(orjson.dumps(frame).decode())
