"""Parses uploaded files and cuts them into sentences, each file in a process with limits."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.documents.parse_worker import FRAME
from app.documents.readers.common import TOO_MUCH, Properties
from app.documents.readers.sniff import FileKind
from app.places import Places
from dragon.errors import DocumentError
from dragon.localizable import Localizable, localizable
from dragon.retrieval.chunking import ChunkSentence
from dragon.whole_file import synchronise

_CPU_SECONDS, _CLOCK_SECONDS = 120, 600  # a parser gets only a share of a busy machine
_DRAW_CPU_SECONDS, _DRAW_CLOCK_SECONDS = 20, 60
_MEMORY_BYTES = 1 << 30
_LINE_BYTES = 32 << 20  # a page that is all noise, in Base64; a batch is far smaller
_SMALL_BYTES = 1 << 20  # such a file does not wait behind a larger one
_IDLE_S = 10.0

_DAMAGED = localizable(
    "file.unread", "The file could not be read: it is damaged, or too large to parse."
)
_ENVIRONMENT = ("PATH", "TESSDATA_PREFIX")  # to find Tesseract
_WORKER = Path(__file__).with_name("parse_worker.py")


class _FromParser(BaseModel):
    """A message of the parser, which is checked: a file may have taken the parser over."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


@dataclass(frozen=True)
class Cut(ChunkSentence):
    """A sentence; the `confidence` of recognised text is in percent."""

    confidence: int | None


class Batch(_FromParser):
    """The next sentences of a text of so many pages and characters."""

    sentences: list[Cut]
    pages: int
    length: int


class Looked(_FromParser):
    """The number, from 1, of the page in which text is being recognised, of so many."""

    page: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1)]


class Sentence(_FromParser):
    """A `Localizable`."""

    text: str
    code: str
    values: dict[str, int | str | Sentence]

    @property
    def localizable(self) -> Localizable:
        """The sentence itself."""
        return Localizable.from_json(self.model_dump())


class Parsed(_FromParser):
    """The last message: the file's kind, and a note for the user if some could not be read."""

    kind: FileKind
    note: Sentence | None
    properties: Properties


class Drawn(_FromParser):
    """A page as PNG in Base64, and the place of its first mark, if any, from 0 (top) to 1."""

    picture: str
    mark: Annotated[float, Field(ge=0, le=1)] | None


class _Unread(_FromParser):
    error: Sentence


class _DiskFailed(_FromParser):
    errno: int


_Line = Batch | Looked | Parsed | Drawn | _Unread | _DiskFailed
_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)


Take = Callable[[Batch | Looked], Awaitable[None]]
Last = TypeVar("Last", Parsed, Drawn)


class _Worker:
    """A process that parses one file after another, in forks of its own."""

    dismissal: asyncio.TimerHandle  # while it is idle

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self.status: int | None = None  # of the last job; None while it runs

    @classmethod
    async def start(cls) -> Self:
        """Start a worker. Its environment only says where Tesseract is: no key reaches it."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_WORKER)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        return cls(process)

    @property
    def usable(self) -> bool:
        """Whether it can do another job."""
        ending = self._stdin.is_closing() or self._process.returncode is not None
        return self.status is not None and not ending

    async def lines(self, *job: str | int) -> AsyncIterator[bytes]:
        """Do a job; yields the lines that it writes. Raises ValueError for one that is too long."""
        self.status = None
        self._stdin.write(json.dumps(job).encode() + b"\n")
        parts: list[bytes] = []  # of a line
        length = 0
        while True:
            kind, number = FRAME.unpack(await self._stdout.readexactly(FRAME.size))
            if kind == b"e":
                self.status = number
                return
            *ends, rest = (await self._stdout.readexactly(number)).split(b"\n")
            for end in ends:
                yield b"".join((*parts, end))
                parts, length = [], 0
            parts.append(rest)
            length += len(rest)
            if length > _LINE_BYTES:
                raise ValueError("a line is too long")

    def dismiss(self) -> None:
        """Have it end, even during a job."""
        self._stdin.close()

    async def end(self) -> None:
        """Dismiss it, and return once it has ended."""
        self.dismiss()
        while await self._stdout.read(_LINE_BYTES):  # else it may wait to be read for ever
            pass
        await self._process.wait()


class Parsing:
    """Parses files until `close`, two small ones and a large one of a household at a time.

    A file can be made to take minutes, so of each kind one place is left for other households.
    Idle workers are kept for a while, since starting one takes longer than reading a note.
    """

    def __init__(self) -> None:
        self._small, self._large = Places(3, 2), Places(2, 1)
        self._idle: list[_Worker] = []  # some of which may have been dismissed

    async def close(self) -> None:
        """End the workers."""
        await asyncio.gather(*(worker.end() for worker in self._idle))

    async def parse(self, path: Path, name: str, out: Path, take: Take | None = None) -> Parsed:
        """Parse a file uploaded as name, write its text to out, and `take` what is found meanwhile.

        The text is UTF-8, its pages joined by form feeds. The sentences come in order while the
        file is being cut, so that they can be searched before its end. Raises DocumentError with a
        message for the user if the file cannot be read or is over a limit, and OSError if the disk
        fails; out then does not exist.
        """
        # A unique name, since the same file may be parsed twice at once.
        partial = out.with_name(f"{out.name}.{secrets.token_hex(8)}.partial")
        job = _CPU_SECONDS, _MEMORY_BYTES, str(path), "read", name, str(partial)
        size = (await asyncio.to_thread(path.stat)).st_size
        lane = self._small if size <= _SMALL_BYTES else self._large
        try:
            async with lane.one(), asyncio.timeout(_CLOCK_SECONDS):
                result = await self._done(Parsed, job, take)
            # Or a power cut could leave an empty text, and with it an empty document.
            await asyncio.to_thread(synchronise, partial)
            partial.replace(out)
        except TimeoutError:
            raise DocumentError(TOO_MUCH) from None
        finally:
            partial.unlink(missing_ok=True)
        return result

    async def draw(self, pdf: Path, page: int, passage: str) -> Drawn:
        """A page of a PDF, from 1, with a passage marked. Raises as `parse`, and TimeoutError."""
        job = _DRAW_CPU_SECONDS, _MEMORY_BYTES, str(pdf), "draw", page, passage
        async with asyncio.timeout(_DRAW_CLOCK_SECONDS):
            return await self._done(Drawn, job)

    async def _done(
        self, kind: type[Last], job: tuple[str | int, ...], take: Take | None = None
    ) -> Last:
        """Have a worker, idle or new, do a job that ends with a line of this kind."""
        while self._idle:
            worker = self._idle.pop()
            worker.dismissal.cancel()
            if worker.usable:
                break
        else:
            worker = await _Worker.start()
        try:
            return await _followed(worker, job, kind, take)
        finally:
            if worker.usable:
                worker.dismissal = asyncio.get_running_loop().call_later(_IDLE_S, worker.dismiss)
                self._idle.append(worker)
            else:  # it must not write to the file any more
                await worker.end()


async def _followed(
    worker: _Worker, job: tuple[str | int, ...], kind: type[Last], take: Take | None
) -> Last:
    last: _Line | None = None
    try:
        async for line in worker.lines(*job):
            last = _LINE.validate_json(line)
            if take is not None and isinstance(last, Batch | Looked):
                await take(last)
    except (ValueError, asyncio.IncompleteReadError, ConnectionError):  # it is none of our messages
        raise DocumentError(_DAMAGED) from None
    if isinstance(last, kind) and worker.status == 0:
        return last
    if isinstance(last, _Unread):
        raise DocumentError(last.error.localizable)
    if isinstance(last, _DiskFailed):
        raise OSError(last.errno, os.strerror(last.errno))
    # The resource limits send these where the process has not ended by itself.
    limited = worker.status in {-signal.SIGXCPU, -signal.SIGKILL}
    raise DocumentError(TOO_MUCH if limited else _DAMAGED)
