"""Parses uploaded files and cuts them into sentences, each file in a process with limits."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from app.disk import synchronise
from app.documents.readers.sniff import Kind
from dragon.errors import DocumentError

SECONDS = 120
CLOCK_SECONDS = 600  # a parser gets only a share of a busy machine
MEMORY_BYTES = 1 << 30
_LINE_BYTES = 16 << 20  # of a batch: ten times what it usually has

_TOO_MUCH = "The file takes too much time or memory to read. Split it into smaller ones."
_DAMAGED = "The file could not be read: it is damaged, or too large to parse."
_WORKER = Path(__file__).with_name("parse_worker.py")


class _FromParser(BaseModel):
    """A file may have taken the parser over: what it says is checked."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Cut(_FromParser):
    """A sentence of the file, as `dragon.retrieval.chunking.Sentence`; `page` if it has pages."""

    text: str
    start: int
    end: int
    page: int | None
    context: str


class Batch(_FromParser):
    """Sentences that follow those before, of a text of so many pages and characters."""

    sentences: list[Cut]
    pages: int
    length: int


class Read(_FromParser):
    """The end: the file's kind and, if some of it could not be read, a note for the user."""

    kind: Kind
    note: str | None


class _Unread(_FromParser):
    error: str


class _DiskFailed(_FromParser):
    errno: int


_Line = Batch | Read | _Unread | _DiskFailed
_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)


async def _unused(_: Batch) -> None:
    """For who wants the text alone."""


async def parse(
    path: Path,
    name: str,
    out: Path,
    take: Callable[[Batch], Awaitable[None]] = _unused,
    *,
    seconds: int = SECONDS,
    clock_seconds: int = CLOCK_SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Kind, str | None]:
    """Parse the file at path, uploaded as name, write its text to out, and `take` its sentences.

    The subprocess may take `seconds` of CPU time and `clock_seconds` of wall-clock time, and has an
    empty environment, so that no key reaches a parser. The text is UTF-8, its pages joined by form
    feeds. The sentences come in order while the file is being cut, so that they can be searched
    before its end. Returns the kind and, if some of it could not be read, a note for the user.
    Raises DocumentError with a message for the user if the file is of an unsupported kind, has no
    text, is encrypted or damaged, or is over a limit, and OSError if the disk fails; out then does
    not exist.
    """
    # A unique name, since the same file may be parsed twice at once.
    partial = out.with_name(f"{out.name}.{secrets.token_hex(8)}.partial")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_WORKER), str(path), name, str(partial)),
        *(str(seconds), str(memory_bytes)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        limit=_LINE_BYTES,
    )
    try:
        async with asyncio.timeout(clock_seconds):
            result = await _followed(process, take)
        # Or a power cut could leave an empty text, and with it an empty document.
        await asyncio.to_thread(synchronise, partial)
        partial.replace(out)
    except TimeoutError:
        raise DocumentError(_TOO_MUCH) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        partial.unlink(missing_ok=True)
    return result


async def _followed(
    process: asyncio.subprocess.Process, take: Callable[[Batch], Awaitable[None]]
) -> tuple[Kind, str | None]:
    """Take all that a parser finds; its last word."""
    last: _Line | None = None
    async for last in _lines(process):
        if isinstance(last, Batch):
            await take(last)
    if isinstance(last, Read) and await process.wait() == 0:
        return last.kind, last.note
    if isinstance(last, _Unread):
        raise DocumentError(last.error)
    if isinstance(last, _DiskFailed):
        raise OSError(last.errno, os.strerror(last.errno))
    # Sent by the resource limits, where the process has not ended by itself.
    limited = await process.wait() in {-signal.SIGXCPU, -signal.SIGKILL}
    raise DocumentError(_TOO_MUCH if limited else _DAMAGED)


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[_Line]:
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            parsed = _LINE.validate_json(line)
            yield parsed
    except ValueError:  # it is no line of ours, or too long for one
        raise DocumentError(_DAMAGED) from None
