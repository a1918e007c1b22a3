"""Parses uploaded files, each in a subprocess with time and memory limits."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path

from app.disk import synchronise
from app.documents.readers.sniff import Kind
from dragon.errors import DocumentError

SECONDS = 60
CLOCK_SECONDS = 240  # a parser gets only a share of a busy machine
MEMORY_BYTES = 1 << 30

_TOO_MUCH = "The file takes too much time or memory to read. Split it into smaller ones."
_WORKER = Path(__file__).with_name("parse_worker.py")


async def parse(
    path: Path,
    name: str,
    out: Path,
    *,
    seconds: int = SECONDS,
    clock_seconds: int = CLOCK_SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Kind, str | None]:
    """Parse the file at path, uploaded as name, and write its text to out.

    The subprocess may take `seconds` of CPU time and `clock_seconds` of wall-clock time, and has an
    empty environment, so that no key reaches a parser. The text is UTF-8, its pages joined by form
    feeds. Returns the kind and, if some of it could not be read, a note for the user. Raises
    DocumentError with a message for the user if the file is of an unsupported kind, has no text,
    is encrypted or damaged, or is over a limit, and OSError if the disk fails; out then does not
    exist.
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
    )
    try:
        async with asyncio.timeout(clock_seconds):
            answer, _ = await process.communicate()
        result = _result(answer, process.returncode)
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


def _result(answer: bytes, status: int | None) -> tuple[Kind, str | None]:
    if status in {-signal.SIGXCPU, -signal.SIGKILL}:  # sent by the resource limits
        raise DocumentError(_TOO_MUCH)
    if status != 0:
        raise DocumentError("The file could not be read: it is damaged, or too large to parse.")
    result = json.loads(answer)
    if "error" in result:
        raise DocumentError(result["error"])
    if "errno" in result:
        raise OSError(result["errno"], os.strerror(result["errno"]))
    return Kind(result["kind"]), result["note"]
