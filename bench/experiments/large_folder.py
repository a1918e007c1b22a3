"""A very large folder: `python -m bench.large_folder [--folder /usr] [--seconds 30]`

A device is told to watch the folder, and to stop after so many seconds. `/health` is requested
every 10 ms all the while, and before: `p99_ms` and `max_ms` are of those replies. `removed_s` is
how long it takes to be told that the folder is watched no more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.experiments.documents import Idle, Probe, Taken
from bench.lib import report
from harness import services
from harness.services import Service, Setup

_PAUSE_S = 0.01
_NOTES = "`before` is the same device without the folder, for as long."


def said(health: Sequence[Taken]) -> dict[str, float]:
    """The number of replies to `/health`, and percentiles of their times."""
    took_ms = [each.milliseconds for each in health]
    p50, p99 = np.percentile(took_ms, (50, 99))
    rounded = {"p50_ms": round(p50, 1), "p99_ms": round(p99, 1), "max_ms": round(max(took_ms), 1)}
    return {"asked": len(took_ms), **rounded}


def watched(device: Service, folder: str, seconds: float) -> Iterator[dict[str, Any]]:
    """A row before the folder is watched, and one of its watch and end."""
    with Probe(device.url, Idle(), _PAUSE_S) as health:
        time.sleep(seconds)
    yield {"what": "before", **said(health)}
    with device.client(300) as client:
        with Probe(device.url, Idle(), _PAUSE_S) as health:
            added = client.post("/api/folders", json={"path": folder}).raise_for_status().json()
            time.sleep(seconds)
            there = client.get(f"/api/folders/{added['id']}").raise_for_status().json()
            began = time.perf_counter()
            client.delete(f"/api/folders/{added['id']}").raise_for_status()
            removed_s = round(time.perf_counter() - began, 2)
        left = client.get("/v1/files").raise_for_status().json()["data"]
    found = {"state": there["state"], "files": sum(there["files"].values()), "left": len(left)}
    yield {"what": f"watching {folder}", **said(health), "removed_s": removed_s, **found}


def main() -> None:
    """Measure, report, and print one JSON object a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="/usr")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as data:
        setup = Setup(Path(data), {"DRAGON_CLOUD": "never"})
        with services.device(setup, services.free_port()) as device:
            for row in watched(device, options.folder, options.seconds):
                rows.append(row)
                print(json.dumps(row), flush=True)
    columns = list(rows[-1])
    rows = [dict.fromkeys(columns, "") | row for row in rows]
    report.section("large_folder", rows, columns=columns, notes=_NOTES)


if __name__ == "__main__":
    main()
