"""Parses uploaded files, each in a process of its own, forked from one that `parsing` starts.

A file may make its parser exhaust memory or time, so the process limits both before it opens the
file; or it may take the parser over, so the process confines itself (`cell`) once file and output
are open. The process it is forked from has loaded the readers and nothing else of the service, and
never looks into a file.

    python parse_worker.py

reads jobs from standard input, one JSON array a line: CPU_SECONDS, MEMORY_BYTES, FILE, "read",
NAME, OUT or CPU_SECONDS, MEMORY_BYTES, FILE, "draw", PAGE, PASSAGE. It answers with JSON objects,
one a line. For "read" it writes the pages, joined by form feeds, to OUT as UTF-8, and answers with
`parsing.Looked` for each page whose picture is read, `parsing.Batch` for some sentences at a time,
in order, then `parsing.Parsed`; for "draw" with `parsing.Drawn`. Or the last line is
{"error": sentence}, or {"errno": number} where the disk failed. The answers come on standard output
in frames, so that a file cannot forge its end: "d" with the number of bytes that follow, "e" with
the exit status. The worker ends with its standard input.
"""

from __future__ import annotations

import errno
import gc
import itertools
import json
import os
import resource
import select
import signal
import struct
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

OUTPUT_BYTES = 256 << 20
FRAME = struct.Struct("!ci")
"""The header of each piece of output: a kind and a number."""

_LOADED = "app.documents.cell", "app.documents.readers.read", "dragon.retrieval.chunking"
_PIECE = 1 << 16
_LOOK_MS = 2
_SENTENCES, _MOST_SENTENCES = 500, 4000  # of the first batch, and of any: each is twice the last
_NICENESS = 5  # generation goes first; at 15 a short note took seconds beside it


def main() -> None:
    """Do one job after another."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    for module in _LOADED:
        import_module(module)

    os.nice(_NICENESS)
    gc.collect()
    gc.freeze()  # else each fork's collector copies what it visits
    for line in iter(sys.stdin.buffer.readline, b""):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _work(json.loads(line), write)
        os.close(write)
        _relay(child, read)


def _work(job: list[Any], out: int) -> NoReturn:
    """Do a job and exit; nothing but its output is open."""
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.closerange(3, out + 1)
        for line in _answers(*job):
            print(json.dumps(line), flush=True)
        sys.stdout.flush()
        status = 0
    finally:
        os._exit(status)


def _relay(child: int, read: int) -> None:
    """Pass on a child's output until it ends; kill it once standard input is closed."""
    waiting = select.poll()
    for descriptor in (0, read):
        waiting.register(descriptor, select.POLLIN)
    data = b"-"
    while data:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if 0 in ready:  # closed: no job is sent during another
            os.kill(child, signal.SIGKILL)
            break
        if data := os.read(read, _PIECE):
            _write(b"d", len(data), data)
    waiting.unregister(read)
    os.close(read)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if waiting.poll(_LOOK_MS):
            os.kill(child, signal.SIGKILL)
    _write(b"e", os.waitstatus_to_exitcode(ended[1]))


def _write(kind: bytes, number: int, data: bytes = b"") -> None:
    sys.stdout.buffer.write(FRAME.pack(kind, number) + data)
    sys.stdout.buffer.flush()


def _answers(
    cpu_seconds: int, memory_bytes: int, path: str, kind: str, *given: Any
) -> Iterator[dict[str, Any]]:
    """Do a job under limits of CPU time, memory and output; yields the answer's lines."""
    from app.documents.readers.common import NESTED, TOO_MUCH, UnreadableError

    for limited, most in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),  # none of its memory is written to the disk
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
    ):
        resource.setrlimit(limited, (most, most))
    try:
        yield from (_read if kind == "read" else _draw)(Path(path).read_bytes(), *given)
    except UnreadableError as error:
        yield {"error": error.message.as_json()}
    except OSError as error:
        if error.errno == errno.EFBIG:  # the limit on what it may write
            yield {"error": TOO_MUCH.as_json()}
        else:
            yield {"errno": error.errno}
    except RecursionError:
        yield {"error": NESTED.as_json()}
    except MemoryError:
        yield {"error": TOO_MUCH.as_json()}


def _read(content: bytes, name: str, out: str) -> Iterator[dict[str, Any]]:
    from app.documents.cell import confine
    from app.documents.readers.ocr import installed
    from app.documents.readers.read import read
    from dragon.retrieval import chunking

    with Path(out).open("w", encoding="utf-8", newline="") as opened:
        ocr = installed(lambda page, of: print(json.dumps({"page": page, "of": of}), flush=True))
        confine(*((ocr.program, ocr.folders) if ocr else ()))
        kind, reading = read(content, name, ocr)
        del content
        length = opened.write(chunking.PAGE_BREAK.join(reading.pages))
        opened.flush()
    found = chunking.each_sentence(reading.pages, alone=kind.tabular)
    size = _SENTENCES
    while cut := list(itertools.islice(found, size)):
        rows = [{**vars(s), "confidence": reading.confidence.get(s.page or 0)} for s in cut]
        rows = rows if kind.paged else [{**row, "page": None} for row in rows]
        yield {"sentences": rows, "pages": len(reading.pages), "length": length}
        size = min(2 * size, _MOST_SENTENCES)
    note = reading.note and reading.note.as_json()
    yield {"kind": kind, "note": note, "properties": asdict(reading.properties)}


def _draw(pdf: bytes, page: int, passage: str) -> Iterator[dict[str, Any]]:
    from app.documents.cell import confine
    from app.documents.readers.pdf import drawn

    confine()
    png, mark = drawn(pdf, page, passage)
    yield {"picture": b64encode(png).decode(), "mark": mark}


if __name__ == "__main__":
    main()
