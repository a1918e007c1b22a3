"""Kills, power cuts, failing disks at a device's storage: `python -m bench.cuts [--kills 200] ...`

A device adds, replaces and deletes files and writes its ledger (`harness.faults.storage`). It is
killed before an operation on files or database, or loses its power there: then the disk holds what
was synchronised, and in every second case some of the rest. Started again it must keep what it had
promised: uploads whole and found, deletions without a trace, the ledger's chain. Or three
operations in a row find the disk full or broken, or the database locked by another process: then it
must get through with everything without a start.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.lib import report
from harness.faults.disk import Failure
from harness.faults.promises import CutShort, Cutter, operations, spread

Row = dict[str, Any]


def cut_short(kills: int, power: int, failures: int) -> Iterator[Row]:
    """A row each for kills, power cuts and ways to fail: what promises they broke."""
    with tempfile.TemporaryDirectory() as folder:
        cutter = Cutter(Path(folder))
        last = operations(cutter)
        killed = (cutter.killed(at) for at in spread(kills, last))
        yield row("kills", killed)
        without = (
            cutter.without_power(at, at if number % 2 else None)
            for number, at in enumerate(spread(power, last))
        )
        yield row("power cuts", without)
        for how in Failure:
            yield row(how, (cutter.failing(how, at) for at in spread(failures, last)))


def row(name: str, cuts: Iterator[CutShort | None]) -> Row:
    """A row: how many promises were made, and which were broken."""
    count, promised, broken = 0, 0, list[str]()
    for cut in cuts:
        if cut is not None:
            count += 1
            promised += len(cut.promised)
            broken += cut.broken()
            print(f"{name}: {count}, broken {len(broken)}", end="\r", flush=True)
    print()
    return {"scenario": name, "cuts": count, "promised": promised, "broken": broken}


def main() -> None:
    """Interrupt, check, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--power", type=int, default=50)
    parser.add_argument("--failures", type=int, default=200, help="of each kind")
    options = parser.parse_args()
    rows = list(cut_short(options.kills, options.power, options.failures))
    for each in rows:
        print(each)
    shown = [{**each, "broken": len(each["broken"])} for each in rows]
    report.section("cuts", shown)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
