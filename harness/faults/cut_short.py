"""A device's storage in a process of its own, interrupted at one of its operations.

   python -m harness.faults.cut_short DATA_DIR PROMISED AT [--out OUT] [--seed N] [--failing HOW]

takes the steps of `harness.faults.storage`. Before operation AT on files or database it is killed;
with OUT the power fails instead: OUT is what the disk then holds (`durable`), and with a seed some
of what was not synchronised. With HOW (`disk.Failure`) it continues, but this operation and the
next ones fail, and refused steps are retried. PROMISED gets a line of JSON for each completed step.
The status is 0 if all were completed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from app.storage import database
from dragon.errors import StorageError
from harness.adding import add
from harness.faults.disk import Failure
from harness.faults.durable import Durable
from harness.faults.storage import HUT, MOVED, NOTES, STEPS, storage

T = TypeVar("T")
_ATTEMPTS = 50
_FAILING = 3  # operations in a row
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


async def work(
    data_dir: Path, promise: Callable[[str, str], None], started: Callable[[], None]
) -> None:
    """Take every step, and report each as a promise once it is done."""
    async with storage(data_dir) as (store, ledger):
        started()
        for what, which in STEPS:
            if what == "recorded":
                with ledger.begin(which, lambda tokens: "", private=True):
                    pass
                await again(ledger.written)
            elif what == "added":
                note = NOTES[which]
                await again(partial(add, store, note.name, note.content, replace=note is MOVED))
            elif which != HUT.id:  # it was replaced
                await again(partial(store.delete, which))
            promise(what, which)
            if what == "added":
                async for _ in await again(partial(store.watch, which)):
                    pass
        await store.settled()


async def again(step: Callable[[], Awaitable[T]]) -> T:
    """Retry a step, as a user does after disk errors."""
    for _ in range(_ATTEMPTS):
        try:
            return await step()
        except (StorageError, OperationalError, OSError):
            await asyncio.sleep(0.05)
    return await step()


class Before(Protocol):
    """Called ahead of an operation, which may be a `statement` of the database."""

    def __call__(self, *, statement: bool = False) -> None: ...


def count_operations(data_dir: Path, before: Before) -> None:
    """Call `before` ahead of every change to files, and every statement of the database."""
    sync = os.fsync

    def synchronised(descriptor: int) -> None:
        before()
        sync(descriptor)

    os.fsync = synchronised  # type: ignore[assignment]
    inside = os.fsencode(data_dir)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writes or isinstance(path, int) or path is None:
                return
        elif name not in _CHANGES:
            return
        if os.fsencode(arguments[0]).startswith(inside):
            before()

    sys.addaudithook(audit)
    for moment in ("before_cursor_execute", "commit"):
        event.listen(Engine, moment, lambda *_: before(statement=True))


def follow_commits(durable: Durable) -> None:
    """Report every SQLite commit to `durable`."""

    class Connection(sqlite3.Connection):
        def commit(self) -> None:
            with durable.lock:
                super().commit()
                durable.committed()

    connect = sqlite3.connect

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, **options, factory=Connection)

    sqlite3.connect = connected  # type: ignore[assignment]


def main() -> None:
    """Work until the operation at which it is interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("promised", type=Path)
    parser.add_argument("at", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--failing", type=Failure, choices=list(Failure))
    options = parser.parse_args()
    sink = os.open(options.promised, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    durable: Durable | None = None
    if options.out is not None:
        durable = Durable(options.data_dir, database.DATABASE)
        durable.watch()
        follow_commits(durable)
    left = options.at

    def before(*, statement: bool = False) -> None:
        nonlocal left
        left -= 1
        if (failing := options.failing) is not None:
            error = failing.error(statement=statement)
            if -_FAILING < left <= 0 and error is not None:
                raise error
        elif left == 0:
            if durable is not None:
                chance = None if options.seed is None else random.Random(options.seed)
                durable.cut(options.out, chance)
            os.kill(os.getpid(), signal.SIGKILL)

    def promise(what: str, which: str) -> None:
        os.write(sink, json.dumps([what, which]).encode() + b"\n")

    # A service that fails to start because of the disk is restarted by its supervisor.
    count = partial(count_operations, options.data_dir, before)
    if options.failing is None:
        count()
    asyncio.run(work(options.data_dir, promise, count if options.failing else lambda: None))


if __name__ == "__main__":
    main()
