"""A process's memory."""

from __future__ import annotations

from pathlib import Path


def resident(pid: int | None, *, peak: bool = False) -> float:
    """The resident set of a process, in MB, now or at its peak. Linux only."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:" if peak else "VmRSS:")[1].split()[0]) / 1024
