"""Parses one uploaded file in a process of its own, started by `parsing`.

Parsers of untrusted files may exhaust memory or time, so the process limits both for itself before
it opens the file; or they may be taken over by it, so once file and output are open the process
shuts itself in (`cell`). It imports nothing of the service but the readers.

    python parse_worker.py FILE NAME OUT CPU_SECONDS MEMORY_BYTES

writes the pages, joined by form feeds, to OUT as UTF-8, and JSON objects to standard output, a line
each: `parsing.Batch` for so many sentences at a time, in order, then `parsing.Read`. Or the one
line is {"error": message}, or {"errno": number} where the disk failed.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUTPUT_BYTES = 256 << 20
_SENTENCES, _MOST_SENTENCES = 500, 4000  # of the first batch, which is twice as large each time
_NICENESS = 5  # generation goes first; at 15 a short note took seconds beside it
_TOO_MUCH_MEMORY = "The file takes too much memory to read. Split it into smaller ones."


def main() -> None:
    """Parse under limits of CPU time, address space and output size."""
    path, name, out, cpu_seconds, memory_bytes = sys.argv[1:]
    os.nice(_NICENESS)
    for limit, value in (
        (resource.RLIMIT_CPU, int(cpu_seconds)),
        (resource.RLIMIT_AS, int(memory_bytes)),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    for line in _answers(Path(path), name, Path(out)):
        print(json.dumps(line), flush=True)


def _answers(path: Path, name: str, out: Path) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from app.documents.cell import confine
    from app.documents.readers.common import NESTED, PAGE_BREAK, UnreadableError
    from app.documents.readers.read import read
    from app.documents.readers.sniff import Kind
    from dragon.retrieval import chunking

    try:
        content = path.read_bytes()
        with out.open("w", encoding="utf-8", newline="") as opened:
            confine()
            reading = read(content, name)
            del content
            opened.write(PAGE_BREAK.join(reading.pages))
            opened.flush()
        kind = Kind(reading.kind)
        length = len(PAGE_BREAK) * (len(reading.pages) - 1) + sum(map(len, reading.pages))
        found = chunking.each_sentence(reading.pages, alone=kind.tabular)
        size = _SENTENCES
        while rows := [_row(each, kind.paged) for each in itertools.islice(found, size)]:
            yield {"sentences": rows, "pages": len(reading.pages), "length": length}
            size = min(2 * size, _MOST_SENTENCES)
        yield {"kind": kind, "note": reading.note}
    except UnreadableError as error:
        yield {"error": str(error)}
    except OSError as error:
        if error.errno == errno.EFBIG:  # the limit on what it may write
            yield {"error": _TOO_MUCH_MEMORY}
        else:
            yield {"errno": error.errno}
    except RecursionError:
        yield {"error": NESTED}
    except MemoryError:
        yield {"error": _TOO_MUCH_MEMORY}


def _row(sentence: Any, paged: bool) -> dict[str, Any]:
    page = sentence.page if paged else None
    return {**vars(sentence), "page": page}


if __name__ == "__main__":
    main()
