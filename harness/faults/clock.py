"""A service whose wall clock can be set: `python -m harness.faults.clock FILE SERVICE`.

Its `time.time` is ahead by as many seconds as FILE says, 0 without the file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cli.__main__ import main


def follow(file: Path) -> None:
    """Make this process's wall clock follow a file."""
    real = time.time

    def ahead() -> float:
        return real() + (float(file.read_text() or 0) if file.exists() else 0.0)

    time.time = ahead


if __name__ == "__main__":
    follow(Path(sys.argv.pop(1)))
    main()
