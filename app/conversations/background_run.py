"""Answers being written, whoever reads: a page that comes back in mid-answer reads on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from app.api.errors import INTERNAL, problem
from app.api.page import server_messages
from app.api.page.markdown import MarkdownStream
from app.api.page.server_messages import Frame
from app.conversations.store import ConversationStore
from app.generation.accumulator import Choice
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    PromptDetailed,
    SourcesFound,
    TextDelta,
)
from app.storage.tables import Message, MessageState

log = logging.getLogger("dragon.writing")

Generate = Callable[[GenerationRequest], AsyncGenerator[Event, None]]
Prepare = Callable[[], Awaitable[tuple[GenerationRequest, int]]]

_TOGETHER_S = 0.04
"""What is written within this time goes to the page at once, and is rendered once."""
_SAVE_S = 1.0


class Writing:
    """One answer. `record` is what the page shows beside the text, as the database keeps it."""

    def __init__(self, answer: Message, store: ConversationStore) -> None:
        self.id = answer.id
        self._store = store
        self._state = MessageState.WRITING
        self._text = answer.text
        self._begun = len(answer.text)
        # An answer that is gone on with has an entry in the ledger for each time.
        self._record: dict[str, Any] = {
            "seams": answer.record.get("seams", []),
            "ledgers": [*answer.record.get("ledgers", [])],
        }
        if (private_from := answer.record.get("private_from")) is not None:
            self._record["private_from"] = private_from
        self._tokens: list[Any] = list(answer.tokens)
        self._markdown = MarkdownStream()
        self._blocks = 0
        self._told: list[Frame] = []
        self._last: Frame | None = None
        self._over = False
        self._changed = asyncio.Event()
        self._written: Choice | None = None
        self._first: float | None = None
        self._task: asyncio.Task[None] | None = None
        written = 0
        for offset, joint, _ in self._record["seams"]:
            self._markdown.push(self._text[written:offset])
            self._markdown.seam(joint)
            written = offset
        self._markdown.push(self._text[written:])

    def start(self, prepare: Prepare, generate: Generate) -> asyncio.Task[None]:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(prepare, generate), name=self.id)
        return self._task

    def stop(self) -> None:
        """What is written stands; again, or once the end is known and is stored, is harmless."""
        # Later, since a task that is cancelled before its first step runs none of its code.
        asyncio.get_running_loop().call_soon(self._cancel)

    async def follow(self) -> AsyncGenerator[Frame, None]:
        """Everything so far, then everything as it comes, to the end."""
        seen = 0
        shown = ""
        while True:
            changed = self._changed
            self._render()
            while seen < len(self._told):
                yield self._told[seen]
                seen += 1
            if self._over:
                return
            last = self._markdown.open()
            if last is not None and last.text != shown:
                shown = last.text
                yield self._with_pace(
                    server_messages.block(self.id, self._blocks, last, open_=True)
                )
            await changed.wait()
            await asyncio.sleep(_TOGETHER_S)

    def _cancel(self) -> None:
        if self._task is not None and self._last is None and not self._task.cancelling():
            self._task.cancel()

    async def _run(self, prepare: Prepare, generate: Generate) -> None:
        over = asyncio.Event()
        saver = asyncio.create_task(self._save_until(over))
        try:
            # Let whoever asked hear that it began: one that is stopped before could not say so.
            await asyncio.sleep(0)
            request, left_out = await prepare()
            self._written = Choice(0, request)
            self._record["ledgers"].append(request.id)
            self._record["asked"] = {
                "mode": request.mode,
                "temperature": request.sampling.temperature,
                "seed": request.sampling.seed,
                "left_out": left_out,
                "documents": request.documents,
            }
            async with aclosing(generate(request)) as events:
                async for event in events:
                    self._written.take(event)
                    self._take(event, request.id)
        except asyncio.CancelledError:
            self._end(server_messages.cancelled(self.id, self._written), MessageState.STOPPED)
        except Exception as error:
            found = problem(error)
            if found is INTERNAL:
                log.exception("an answer failed")
            self._end({"type": "error", "id": self.id, **found.body()}, MessageState.ERROR)
        finally:
            over.set()
            try:
                # Not cancelled: a transaction torn off in the middle keeps the database locked.
                await asyncio.gather(saver, return_exceptions=True)
                # Whoever hears of the end finds the whole answer stored.
                await self._save()
            except Exception:
                log.exception("an answer was not stored")
                self._last = {"type": "error", "id": self.id, **INTERNAL.body()}
            finally:
                # Even if this task itself is cancelled: else who reads would wait for ever.
                if self._last is not None:
                    self._tell(self._last)
                self._over = True
                self._note()

    def _take(self, event: Event, ledger: str) -> None:
        match event:
            case TextDelta(text=text):
                self._first = self._first or time.monotonic()
                self._text += text
                self._markdown.push(text)
            case Finished():
                frame = server_messages.told(self.id, event, ledger)
                frame["dragon"]["asked"] = self._record["asked"]
                self._end(frame, MessageState.DONE)
            case SourcesFound():
                self._tell(server_messages.told(self.id, event, ledger))
                for name in ("sources", "nothing_relevant", "unread_documents"):
                    self._record[name] = self._told[-1][name]
            case Detailed():
                frame = server_messages.told(self.id, event, ledger)
                for token in frame["tokens"]:
                    token["start"] += self._begun
                    token["end"] += self._begun
                self._tokens += frame["tokens"]
                self._tell(frame)
            case PromptDetailed():
                pass
            case PeerChanged(joint=joint, reason=reason):
                self._tell(server_messages.told(self.id, event, ledger))
                if self._text.strip() and joint is not self._was_joint():
                    self._record["seams"].append([len(self._text), joint, reason])
                    self._markdown.seam(joint)
        self._note()

    def _was_joint(self) -> bool:
        """Whether the cloud took part by the last seam; an answer that goes on has some before."""
        return bool(self._record["seams"][-1][1]) if self._record["seams"] else True

    def _end(self, frame: Frame, state: MessageState) -> None:
        """The last frame, which is told after the last blocks."""
        self._render(self._markdown.finish())
        frame["ledgers"] = self._record["ledgers"]
        kind = {name: value for name, value in frame.items() if name not in ("type", "id")}
        self._record |= kind if frame["type"] == "error" else {"done": kind}
        self._last, self._state = frame, state

    def _render(self, blocks: list[Any] | None = None) -> None:
        for part in self._markdown.take() if blocks is None else blocks:
            self._tell(
                self._with_pace(server_messages.block(self.id, self._blocks, part, open_=False))
            )
            self._blocks += 1

    def _with_pace(self, frame: Frame) -> Frame:
        """The frame with the tokens so far and the milliseconds since the first."""
        passed = 0.0 if self._first is None else time.monotonic() - self._first
        count = 0 if self._written is None else len(self._written.tokens)
        return frame | {"tokens": count, "ms": round(1000 * passed)}

    def _tell(self, frame: Frame) -> None:
        self._told.append(frame)

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _save_until(self, over: asyncio.Event) -> None:
        """Store the text now and then, for when the device is killed."""
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _SAVE_S)
                return
            await self._store.save(self.id, MessageState.WRITING, self._text, self._record)

    async def _save(self) -> None:
        await self._store.save(self.id, self._state, self._text, self._record, self._tokens)


class Writings:
    """The answers in progress by id; closed, all are stopped and stored."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store
        self._running: dict[str, Writing] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, answer: Message, prepare: Prepare, generate: Generate) -> Writing:
        """Begin to write an answer, or to go on with one."""
        writing = Writing(answer, self._store)
        self._running[answer.id] = writing
        task = writing.start(prepare, generate)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._running.pop(writing.id, None)

        task.add_done_callback(ended)
        return writing

    def get(self, answer_id: str) -> Writing | None:
        """The answer, if it is being written."""
        return self._running.get(answer_id)

    @property
    def count(self) -> int:
        """How many are being written."""
        return len(self._running)

    async def close(self) -> None:
        """Stop all."""
        for writing in self._running.values():
            writing.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
