"""How events become an HTTP response: at once or as a stream, in any format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from fastapi import Request
from fastapi.responses import Response

from app.api.openai.choices import merged
from app.api.openai.sse import EventStream, unless_gone
from app.container import AppState
from app.generation.accumulator import AnswerState
from app.generation.events import Event
from dragon.inference.fairness import CALLER

Events = AsyncGenerator[tuple[int, Event], None]


def begun(state: AppState, answers: Sequence[AnswerState], user: str | None = None) -> Events:
    """The events of a call's answers, each with the answer's index; `user` gets its own share.

    Raises `InvalidRequestError` for what the model cannot do, before any answer begins.
    """
    if user:
        CALLER.set(f"{CALLER.get()} {user}")
    for answer in answers:
        state.generation.check(answer.request)
    return state.admission.admitted(merged(state.answers.write, answers))


async def at_once(http: Request, events: Events, render: Callable[[], bytes]) -> Response:
    """Render the answers once they are finished; if the client leaves, the work ends.

    Raises `ClientDisconnect` if the client is gone.
    """

    async def finished() -> None:
        async for _ in events:
            pass

    async with aclosing(events):
        await unless_gone(http.receive, finished())
    return Response(render(), media_type="application/json")


async def as_stream(
    http: Request,
    events: Events,
    frames: Callable[[Events], AsyncGenerator[bytes, None]],
    kind: type[EventStream] = EventStream,
) -> Response:
    """The frames that events make. Bad input is raised before the stream begins.

    Raises `ClientDisconnect` if the client is gone.
    """
    try:
        # Awaited here, so that a refusal still gets its own status.
        first = await unless_gone(http.receive, anext(events))
    except BaseException:
        await events.aclose()
        raise
    return kind(frames(_from(first, events)), events)


async def _from(first: tuple[int, Event], events: Events) -> Events:
    async with aclosing(events):
        yield first
        async for each in events:
            yield each
