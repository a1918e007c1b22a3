"""Follows one folder: scans all of it when something changes in it, and now and then.

An event only triggers a scan, so none can be misread, and one that is lost (a network drive has
none) costs a minute. The system is asked for the events of each directory that a scan has looked
into, one by one: asked for a folder with all that is below it, it follows links, and the whole
process stands still until the last of them has been walked.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError
from watchfiles import Change, awatch

from app.cancellation import pause
from app.documents.folders import scan
from app.documents.folders.keeping import Keeping
from app.documents.uploads import EMPTY, MAX_BYTES
from app.owners import act_as
from app.storage.tables import WatchedFile, WatchedFolder
from dragon.errors import StorageError
from dragon.localizable import localizable

T = TypeVar("T")

log = logging.getLogger(__name__)

TOO_LARGE = localizable(
    "file.large", "The file is over the limit of {size} MB.", size=MAX_BYTES // 10**6
)

# A file is read once it was not written for so long, and given up once it was missing for so long:
# a file that is moved may be gone for a moment, and then be found elsewhere.
_QUIET_S, _GRACE_S = 0.5, 2.0
_SOON_S, _LATEST_S = 1.0, 60.0  # between scans: while something is awaited, and otherwise
_UNHEARD_S = 10.0  # between scans where the system reports no changes
_SLICE_S, _LONG_SLICE_S = 1.0, 5.0  # of reading between scans: if something changed, and otherwise
_SHARE, _LONGEST_S = 2, 10.0  # the pause after a scan: so many times as long, and at most
_ROOM_S = 0.02

MOST_HEARD = 2000
"""The most directories listened to: starting with one blocks everything else for 20 us."""

_MAIL = frozenset({"cur", "new"})  # in mailboxes with names like `.Sent`, too
_AGAIN_S, _LATER_S = 1.0, 60.0  # before a retry: after an error that passes, and otherwise


@dataclass
class Listener:
    """Sets `changed` when something happens in the directories it is told of, until it is closed.

    `identity` returns that of the folder at the path now, or raises OSError.
    """

    root: Path
    changed: asyncio.Event
    identity: Callable[[], Awaitable[scan.Identity]]
    hears: bool = True
    _directories: Mapping[str, scan.Identity] = field(default_factory=dict)
    _others: asyncio.Event = field(default_factory=asyncio.Event)  # ends listening to the old ones
    _closed: bool = False

    def tell(self, directories: Mapping[str, scan.Identity]) -> None:
        """Listen to these directories, relative to the folder, and to no others."""
        if directories != self._directories:
            self._directories = directories
            self._others.set()

    def close(self) -> None:
        """Have `run` return."""
        self._closed = True
        self._others.set()

    async def run(self) -> None:
        """Listen until `close`."""
        while not self._closed:
            self._others.clear()
            self.hears = len(self._directories) <= MOST_HEARD
            if not (self._directories and self.hears):
                await self._others.wait()
                continue
            try:
                await self._hear()
            except (FileNotFoundError, ExceptionGroup):
                # A directory is gone already, or a name that is no text has ended all events.
                self.changed.set()
                await pause(self._others, _AGAIN_S)
            except (OSError, RuntimeError) as error:  # such as the system's limit of watches
                log.warning("changes in %s are found late: %s", self.root, error)
                self.hears = False
                await pause(self._others, _LATER_S)

    async def _hear(self) -> None:
        """Listen until there are other directories to listen to."""
        known = self._directories
        events = awatch(
            *(self.root / each for each in known if each.isprintable()),
            watch_filter=self._matters,
            debounce=1000,
            stop_event=self._others,
            rust_timeout=1000,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        async with aclosing(events):
            self.changed.set()  # perhaps before this began
            async for changes in events:
                there = None
                with suppress(OSError):
                    there = await self.identity()
                if changes or there != known[""]:  # another directory, or drive, or none
                    self.changed.set()

    def _matters(self, _: Change, path: str) -> bool:
        parts = Path(path).relative_to(self.root).parts
        named = parts[-1:] and (parts[-1] in scan.RULES or not _MAIL.isdisjoint(parts))
        return bool(named) or not any(scan.USUAL(f"{part}/") for part in parts)


class FolderState(StrEnum):
    """Whether a folder is being followed."""

    STARTING = "starting"  # not looked at yet
    WATCHED = "watched"
    MISSING = "missing"  # gone, or a link or empty directory in its place: its documents stay
    TOO_LARGE = "too_large"  # to be looked through; its documents stay
    FAILING = "failing"  # the device's disk or database; it goes on once it can


@dataclass
class Watcher:
    """Follows a folder from `start` to `close`.

    `apart` is a directory that is never looked into. Blocking work is done by `threads`.
    """

    folder: WatchedFolder
    keeping: Keeping
    apart: Path
    threads: Executor
    state: FolderState = FolderState.STARTING
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _missed: dict[str, float] = field(default_factory=dict)
    _full: scan.Identity | None = None  # the directory that had something in it
    _scan_s: float = 0.0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._root = Path(self.folder.path)
        self._listener = Listener(self._root, self._changed, self._identity)

    def start(self) -> None:
        """Begin with what has changed since the device ran last."""
        self._tasks = [
            asyncio.create_task(work(), name=f"{name} {self.folder.id}")
            for name, work in (("follow", self._follow), ("listen", self._listener.run))
        ]

    async def close(self) -> None:
        """Stop, and return once nothing is written any more; the next start goes on."""
        self._closing.set()
        self._changed.set()
        self._listener.close()
        await asyncio.gather(*self._tasks)

    def look_again(self) -> None:
        """Have the folder scanned now."""
        self._changed.set()

    async def _in_thread(self, work: Callable[..., T], *given: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *given)

    async def _identity(self) -> scan.Identity:
        return await self._in_thread(scan.identity_of, self._root, self.apart)

    async def _follow(self) -> None:
        act_as(self.folder.owner)
        while not self._closing.is_set():
            self._changed.clear()
            try:
                latest = await self._look()
            except scan.ScanEndedError:
                return
            except scan.FolderTooLargeError:
                self.state, latest = FolderState.TOO_LARGE, _LATEST_S
            except (OSError, SQLAlchemyError, StorageError) as error:
                if self.state != FolderState.FAILING:
                    log.warning("%s cannot be followed now: %s", self._root, error)
                self.state, latest = FolderState.FAILING, _SOON_S
            except Exception:
                log.exception("%s cannot be followed now", self._root)
                self.state, latest = FolderState.FAILING, _LATEST_S
            await pause(self._closing, min(_SHARE * self._scan_s, _LONGEST_S))
            await pause(self._changed, latest)
            if self._changed.is_set():  # what was written just now is not read yet anyway
                await pause(self._closing, _QUIET_S)

    async def _look(self) -> float:
        """Update documents to the folder's files; returns the seconds until the next scan."""
        began = time.monotonic()
        try:
            found = await self._in_thread(scan.scan, self._root, self.apart, self._closing.is_set)
        except OSError:
            self.state = FolderState.MISSING
            self._listener.tell({})
            return _SOON_S
        finally:
            self._scan_s = time.monotonic() - began
        self._listener.tell(found.directories)
        known = await self.keeping.known(self.folder.id)
        # A drive that is not mounted leaves an empty directory; one seen with files was emptied.
        if found.bare and known and found.identity != self._full:
            self.state = FolderState.MISSING
            return _SOON_S
        self._full = found.identity
        if new := found.files.keys() - known.keys():
            await self.keeping.expect(self.folder.id, new)
            known = await self.keeping.known(self.folder.id)
        self.state = FolderState.WATCHED
        latest = _LATEST_S if self._listener.hears else _UNHEARD_S
        return min(
            await self._read(found, known),
            await self._give_up(found, known),
            _SOON_S if await self.keeping.settle(self.folder.id) else latest,
        )

    async def _read(self, found: scan.Scan, known: Mapping[str, WatchedFile]) -> float:
        """Read what changed, the latest first; returns the seconds until the next scan."""
        changed = [
            (mark.changed_ns, path)
            for path, (_, mark) in found.files.items()
            if (known[path].size, known[path].changed_ns) != (mark.size, mark.changed_ns)
        ]
        began, latest = time.monotonic(), math.inf
        for changed_ns, path in sorted(changed, reverse=True):
            quiet = time.time() - changed_ns / 1e9
            if 0 <= quiet < _QUIET_S:
                latest = min(latest, _QUIET_S - quiet)
                continue
            # Otherwise changes in a new folder would wait for all of it to be read.
            while not (self.keeping.ingestion.has_room or self._closing.is_set()):
                await pause(self._closing, _ROOM_S)
            slice_s = _SLICE_S if self._changed.is_set() else _LONG_SLICE_S
            if time.monotonic() - began > slice_s or self._closing.is_set():
                return 0
            if not await self._take(known[path], *found.files[path]):
                latest = min(latest, _QUIET_S)
        return latest

    async def _take(self, file: WatchedFile, path: str, mark: scan.Mark) -> bool:
        """Read a file, or note why it cannot be read; returns whether either was done."""
        if mark.size > MAX_BYTES:
            await self.keeping.refuse(file, TOO_LARGE, mark)
            return True
        try:
            content = await self._in_thread(scan.content_of, self._root, self.apart, path)
        except FileNotFoundError:
            return False
        except OSError as error:
            why = error.strerror or "?"
            problem = localizable("file.closed", "The file cannot be opened: {why}.", why=why)
            if file.problem != problem:
                await self.keeping.refuse(file, problem, None)
            return True
        if content is None or content[1] != mark:
            return False
        if data := content[0]:
            await self.keeping.hold(self.folder, file.path, data, mark)
        else:
            await self.keeping.refuse(file, EMPTY, mark)
        return True

    async def _give_up(self, found: scan.Scan, known: Mapping[str, WatchedFile]) -> float:
        """Forget files gone for a while; returns the seconds until the next scan."""
        now, closed = time.monotonic(), tuple(found.closed)
        gone = {path for path in known.keys() - found.files.keys() if not path.startswith(closed)}
        self._missed = {path: self._missed.get(path, now) for path in gone}
        given_up = {path for path, since in self._missed.items() if now - since >= _GRACE_S}
        if given_up:
            await self.keeping.forget(self.folder.id, given_up)
        return _SOON_S if len(given_up) < len(gone) else math.inf
