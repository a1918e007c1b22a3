"""Parses one uploaded file in a process of its own, started by `parsing`.

Parsers of untrusted files may exhaust memory or time, so the process limits both for itself before
it opens the file; or they may be taken over by it, so once file and output are open the process
shuts itself in (`cell`). It imports nothing of the service but the readers.

    python parse_worker.py FILE NAME OUT CPU_SECONDS MEMORY_BYTES

writes the pages, joined by form feeds, to OUT as UTF-8, and one JSON object to standard output:
{"kind": a value of `sniff.Kind`, "note": what was unreadable}, {"error": message}, or
{"errno": number} where the disk failed.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

OUTPUT_BYTES = 256 << 20
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
    print(json.dumps(_answer(Path(path), name, Path(out))))


def _answer(path: Path, name: str, out: Path) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from app.documents.cell import confine
    from app.documents.readers.common import NESTED, PAGE_BREAK, UnreadableError
    from app.documents.readers.read import read

    try:
        content = path.read_bytes()
        with out.open("w", encoding="utf-8", newline="") as opened:
            confine()
            reading = read(content, name)
            opened.write(PAGE_BREAK.join(reading.pages))
    except UnreadableError as error:
        return {"error": str(error)}
    except OSError as error:
        if error.errno == errno.EFBIG:  # the limit on what it may write
            return {"error": _TOO_MUCH_MEMORY}
        return {"errno": error.errno}
    except RecursionError:
        return {"error": NESTED}
    except MemoryError:
        return {"error": _TOO_MUCH_MEMORY}
    return {"kind": reading.kind, "note": reading.note}


if __name__ == "__main__":
    main()
