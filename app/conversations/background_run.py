"""Answers written in the background, whether or not anybody reads them meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress

from app.conversations.record import Before, Ending, Written
from app.conversations.store import ConversationStore
from app.generation.accumulator import AnswerState, Write
from app.generation.events import Event, GenerationRequest, TextDelta
from app.owners import DEVICE, acting
from app.problems import reported
from app.storage.tables import MessageState, StoredMessage

Prepare = Callable[[], Awaitable[tuple[GenerationRequest, int]]]
Place = Callable[[], AbstractAsyncContextManager[None]]

_TOGETHER_S = 0.04
"""Events within this time are read together, so that their text is rendered once."""
_SAVE_S = 1.0
_DRAIN_S = 5.0


class BackgroundRun:
    """One answer of a conversation, written from now on. `over`: it has ended and is stored."""

    def __init__(
        self,
        answer: StoredMessage,
        store: ConversationStore,
        model: str,
        prepare: Prepare,
        write: Write,
        place: Place,
    ) -> None:
        self.id, self.owner = answer.id, answer.owner
        before = Before(answer.text, answer.record, tuple(answer.tokens))
        self.written = Written(before, model=model)
        self.over = False
        self._store = store
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._first: float | None = None
        self._ended: float | None = None
        self.task = asyncio.create_task(self._run(prepare, write, place), name=self.id)

    def stop(self) -> None:
        """End it; what is written stays. Does nothing when repeated or after the end."""

        def cancel() -> None:
            ended = self.written.ending is not None
            if not ended and not self.task.cancelling():
                self.task.cancel()

        # Later, since a task cancelled before its first step runs none of its code.
        asyncio.get_running_loop().call_soon(cancel)

    async def follow(self) -> AsyncGenerator[Sequence[Event], None]:
        """All events so far, then more as they come; with the last ones it is `over`."""
        seen = 0
        while True:
            changed, over = self._changed, self.over
            events = self._events[seen:]
            seen += len(events)
            yield events
            if over:
                return
            await changed.wait()
            await asyncio.sleep(_TOGETHER_S)

    def may_read(self, document: str) -> bool:
        """Whether a document may be among its passages; any may be until they are found."""
        found = self.written.answer and self.written.answer.found
        return found is None or document in {source.id for source in found.sources}

    async def ended(self) -> None:
        """Return once it is over and stored."""
        async for _ in self.follow():
            pass

    @property
    def milliseconds(self) -> int:
        """Milliseconds since the first text, up to the end."""
        if self._first is None:
            return 0
        return round(1000 * ((self._ended or time.monotonic()) - self._first))

    async def _run(self, prepare: Prepare, write: Write, place: Place) -> None:
        over = asyncio.Event()
        saver = asyncio.create_task(self._save_until(over))
        try:
            # Let the caller report that it began: stopped before that, it could not be read.
            await asyncio.sleep(0)
            request, self.written.left_out = await prepare()
            self.written.answer = answer = AnswerState(request)
            async with place(), aclosing(write(answer)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        self._first = self._first or time.monotonic()
                    if answer.finished:
                        self._end(Ending(MessageState.DONE))
                    self._events.append(event)
                    self._notify()
        except asyncio.CancelledError:
            self._end(Ending(MessageState.STOPPED))
        except Exception as error:
            self._end(Ending(MessageState.ERROR, reported(error, "an answer")))
        finally:
            over.set()
            try:
                # Not cancelled: an interrupted transaction would keep the database locked.
                await asyncio.gather(saver, return_exceptions=True)
                # Whoever sees the end finds the whole answer stored.
                written, ending = self.written, self.written.ending
                state = MessageState.WRITING if ending is None else ending.state
                whole = (written.text, written.record, written.tokens)
                await self._store.save(self.id, state, *whole)
            except Exception as error:
                self._end(Ending(MessageState.ERROR, reported(error, "storing an answer")))
            finally:
                # Even if this task itself is cancelled: otherwise readers would wait forever.
                self.over = True
                self._notify()

    def _end(self, ending: Ending) -> None:
        self.written.ending = ending
        self._ended = time.monotonic()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _save_until(self, over: asyncio.Event) -> None:
        """Store the text periodically, in case the device is killed."""
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _SAVE_S)
                return
            written = self.written
            await self._store.save(self.id, MessageState.WRITING, written.text, written.record)


class BackgroundRuns:
    """The answers in progress by id, written by `model`; `close` stops and stores them all."""

    def __init__(
        self, store: ConversationStore, write: Write, model: str, place: Place = nullcontext
    ) -> None:
        """Each answer is written in a `place` of its own."""
        self._store = store
        self._model = model
        self._write = write
        self._place = place
        self._running: dict[str, BackgroundRun] = {}
        # Also those whose answer is already being continued by another run.
        self._unfinished: set[BackgroundRun] = set()

    def start(self, answer: StoredMessage, prepare: Prepare) -> BackgroundRun:
        """Begin to write an answer, or to continue one.

        `prepare` returns the request, and how many turns of the conversation it leaves out.
        """
        run = BackgroundRun(answer, self._store, self._model, prepare, self._write, self._place)
        self._running[run.id] = run
        self._unfinished.add(run)

        def ended(_: asyncio.Task[None]) -> None:
            self._unfinished.discard(run)
            if self._running.get(run.id) is run:
                del self._running[run.id]

        run.task.add_done_callback(ended)
        return run

    def get(self, answer_id: str) -> BackgroundRun | None:
        """The answer, if it is being written and belongs to the current owner."""
        run = self._running.get(answer_id)
        return run if run is not None and run.owner == acting() else None

    async def stop_reading(self, document: str) -> None:
        """Stop the owner's answers that may read a document; they are stored on return."""
        own = (run for run in self._running.values() if run.owner == acting())
        reading = [run for run in own if run.may_read(document)]
        for run in reading:
            run.stop()
        for run in reading:
            await run.ended()

    def stop_of(self, owner: str) -> None:
        """Stop the answers of an owner whose key is revoked; the device's own continue."""
        for run in self._running.values():
            if run.owner == owner != DEVICE:
                run.stop()

    @property
    def count(self) -> int:
        return len(self._running)

    async def close(self) -> None:
        """Let answers that are nearly done finish, and stop the others."""
        if self._unfinished:
            tasks = [run.task for run in self._unfinished]
            await asyncio.wait(tasks, timeout=_DRAIN_S)
        # Others may have begun meanwhile.
        while self._unfinished:
            for run in self._unfinished:
                run.stop()
            await asyncio.wait([run.task for run in self._unfinished])
