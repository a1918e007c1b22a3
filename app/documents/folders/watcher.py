"""Follows one folder: looks at all of it when something changes in it, and now and then.

Events only say that there is something to look for; what is there, a scan finds. So no event can be
misread, and one that is lost (a network drive has none) costs a minute.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from enum import StrEnum
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError
from watchfiles import Change, awatch

from app.documents.folders.ignore import RULES, USUAL
from app.documents.folders.keeping import Keeping
from app.documents.folders.scan import Identity, Mark, Scan, content_of, identity_of, scan
from app.documents.uploads import MAX_BYTES
from app.owners import act_as
from app.storage.tables import WatchedFile, WatchedFolder
from dragon.errors import StorageError
from dragon.localizable import localizable

log = logging.getLogger(__name__)

TOO_LARGE = localizable(
    "file.large", "The file is over the limit of {size} MB.", size=MAX_BYTES // 10**6
)
EMPTY = localizable("file.nothing", "The file is empty.")

_MAIL = frozenset({"cur", "new"})  # in mailboxes with names like `.Sent`, too

# A file is read once nobody has written it for so long, and given up once it is missed for so long:
# a file that moves may be gone for a moment, and then be found elsewhere.
_QUIET_S, _GRACE_S = 0.5, 2.0
_SOON_S, _LATEST_S = 1.0, 60.0  # between looks, while something is awaited, and else
_UNHEARD_S = 10.0  # between looks where the system tells of no changes
_SLICE_S, _LONG_SLICE_S = 1.0, 5.0  # of reading files before a look, if something changed, and else
_SHARE, _LONGEST_S = 2, 10.0  # a scan of a large folder is followed by so much more time without
_ROOM_S = 0.02


class FolderState(StrEnum):
    """Whether a folder is being followed."""

    STARTING = "starting"  # not looked at yet
    WATCHED = "watched"
    MISSING = "missing"  # gone, or an empty directory in its place: its documents stay
    FAILING = "failing"  # the device's disk or database; it goes on once it can


class Watcher:
    """Follows a folder from `start` to `close`.

    `apart` is a directory that is never looked into; `has_room` says whether a document that is
    stored now will be read soon, so that what changes in a new folder does not wait for all of it.
    """

    def __init__(
        self,
        folder: WatchedFolder,
        keeping: Keeping,
        apart: Path,
        has_room: Callable[[], bool],
    ) -> None:
        self.folder = folder
        self.state = FolderState.STARTING
        self._root = Path(folder.path)
        self._keeping = keeping
        self._apart = apart
        self._has_room = has_room
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._missed: dict[str, float] = {}
        self._full: Identity | None = None  # the directory that had something in it
        self._scan_s = 0.0
        self._latest_s = _LATEST_S
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin with what has changed since the device ran last."""
        self._tasks = [
            asyncio.create_task(work(), name=f"{name} {self.folder.id}")
            for name, work in (("follow", self._follow), ("listen", self._listen))
        ]

    async def close(self) -> None:
        """Return once nothing is written any more; what is not read yet is at the next start."""
        self._closing.set()
        self._changed.set()
        await asyncio.gather(*self._tasks)

    def look_again(self) -> None:
        """Have the folder looked at now."""
        self._changed.set()

    async def _listen(self) -> None:
        """Have the folder looked at whenever something changes in it."""
        while not self._closing.is_set():
            try:
                identity = await asyncio.to_thread(identity_of, self._root)
            except OSError:
                await self._pause(self._closing, _SOON_S)
                continue
            try:
                await self._hear(identity)
            except (
                OSError,
                RuntimeError,
                ExceptionGroup,
            ) as error:  # such as no more of the system's watches
                log.warning("changes in %s are found late: %s", self._root, error)
                self._latest_s = _UNHEARD_S
                await self._pause(self._closing, _LATEST_S)

    async def _hear(self, identity: Identity) -> None:
        """Hear of changes, for as long as the folder is the same directory."""
        events = awatch(
            self._root,
            watch_filter=self._matters,
            debounce=1000,
            stop_event=self._closing,
            rust_timeout=1000,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with aclosing(events):
            self._changed.set()  # by what nobody heard of before
            async for changes in events:
                self._latest_s = _LATEST_S
                if changes:
                    self._changed.set()
                with suppress(OSError):
                    if await asyncio.to_thread(identity_of, self._root) == identity:
                        continue
                return  # another directory, or drive, is there now, or none

    def _matters(self, _: Change, path: str) -> bool:
        """Whether a change may be of a file that is followed."""
        parts = Path(path).relative_to(self._root).parts
        named = parts[-1:] and (parts[-1] in RULES or not _MAIL.isdisjoint(parts))
        return bool(named) or not any(USUAL(f"{part}/") for part in parts)

    async def _follow(self) -> None:
        act_as(self.folder.owner)
        while not self._closing.is_set():
            self._changed.clear()
            try:
                latest = await self._look()
            except (OSError, SQLAlchemyError, StorageError) as error:
                if self.state != FolderState.FAILING:
                    log.warning("%s cannot be followed now: %s", self._root, error)
                self.state, latest = FolderState.FAILING, _SOON_S
            except Exception:
                log.exception("%s cannot be followed now", self._root)
                self.state, latest = FolderState.FAILING, _LATEST_S
            await self._pause(self._closing, min(_SHARE * self._scan_s, _LONGEST_S))
            await self._pause(self._changed, latest)
            if self._changed.is_set():  # what was written just now is not read yet anyway
                await self._pause(self._closing, _QUIET_S)

    @staticmethod
    async def _pause(event: asyncio.Event, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    async def _look(self) -> float:
        """Bring documents up to what is there; returns in how many seconds to look again."""
        began = time.monotonic()
        try:
            found = await asyncio.to_thread(scan, self._root, self._apart)
        except OSError:
            self.state = FolderState.MISSING
            return _SOON_S
        self._scan_s = time.monotonic() - began
        known = await self._keeping.known(self.folder.id)
        # Where a drive is not mounted there is an empty directory; else somebody emptied it.
        if found.bare and known and found.identity != self._full:
            self.state = FolderState.MISSING
            return _SOON_S
        self._full = found.identity
        if new := found.files.keys() - known.keys():
            await self._keeping.expect(self.folder.id, new)
            known = await self._keeping.known(self.folder.id)
        self.state = FolderState.WATCHED
        return min(
            await self._read(found, known),
            await self._give_up(found, known),
            _SOON_S if await self._keeping.settle(self.folder.id) else self._latest_s,
        )

    async def _read(self, found: Scan, known: Mapping[str, WatchedFile]) -> float:
        """Read what changed, the latest first; returns in how many seconds to go on."""
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
            while not (self._has_room() or self._closing.is_set()):
                await self._pause(self._closing, _ROOM_S)
            slice_s = _SLICE_S if self._changed.is_set() else _LONG_SLICE_S
            if time.monotonic() - began > slice_s or self._closing.is_set():
                return 0
            if not await self._take(known[path], *found.files[path]):
                latest = min(latest, _QUIET_S)
        return latest

    async def _take(self, file: WatchedFile, path: Path, mark: Mark) -> bool:
        """Read a file; returns whether it could be, for good or ill."""
        if mark.size > MAX_BYTES:
            await self._refuse(file, TOO_LARGE, mark)
            return True
        try:
            content = await asyncio.to_thread(content_of, path)
        except FileNotFoundError:
            return False
        except OSError as error:
            why = error.strerror or "?"
            problem = localizable("file.closed", "The file cannot be opened: {why}.", why=why)
            await self._refuse(file, problem, None)
            return True
        if content is None or content.mark != mark:
            return False
        if not content.data:
            await self._refuse(file, EMPTY, mark)
            return True
        await self._keeping.hold(self.folder, file.path, content)
        return True

    async def _refuse(self, file: WatchedFile, problem: str, mark: Mark | None) -> None:
        if file.problem != problem or mark is not None:
            await self._keeping.refuse(file, problem, mark)

    async def _give_up(self, found: Scan, known: Mapping[str, WatchedFile]) -> float:
        """Let go of files that are gone; returns in how many seconds to look for those missed."""
        now = time.monotonic()
        gone = {path for path in known.keys() - found.files.keys() if found.knows_of(path)}
        self._missed = {path: self._missed.get(path, now) for path in gone}
        given_up = {path for path, since in self._missed.items() if now - since >= _GRACE_S}
        if given_up:
            await self._keeping.forget(self.folder.id, given_up)
        return _SOON_S if len(given_up) < len(gone) else math.inf
