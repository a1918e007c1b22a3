"""Hears of changes in the directories of a watched folder, and in no others.

The system is asked for each directory by itself: asked for a folder with all that is below it, it
follows links, and the whole process stands still until the last of them has been walked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path

from watchfiles import Change, awatch

from app.documents.folders.ignore import RULES, USUAL
from app.documents.folders.opening import Identity

log = logging.getLogger(__name__)

MOST = 2000
"""Directories that are listened to: to begin with one holds up everything else for 20 us."""

_MAIL = frozenset({"cur", "new"})  # in mailboxes with names like `.Sent`, too
_AGAIN_S, _LATER_S = 1.0, 60.0  # after something that passes, and else


class Listener:
    """Sets `changed` for what happens in the directories that it is told of, until it is closed."""

    def __init__(
        self, root: Path, changed: asyncio.Event, identity: Callable[[], Awaitable[Identity]]
    ) -> None:
        """`identity` is that of the folder which has the path now; it raises OSError for none."""
        self._root = root
        self._changed = changed
        self._identity = identity
        self._directories: Mapping[str, Identity] = {}
        self._others = asyncio.Event()  # ends what is being heard
        self._closed = False
        self.hears = True

    def tell(self, directories: Mapping[str, Identity]) -> None:
        """Listen to these directories, relative to the folder, and to no others."""
        if directories != self._directories:
            self._directories = directories
            self._others.set()

    def close(self) -> None:
        """Have `run` return."""
        self._closed = True
        self._others.set()

    async def run(self) -> None:
        """Listen."""
        while not self._closed:
            self._others.clear()
            self.hears = len(self._directories) <= MOST
            if not (self._directories and self.hears):
                await self._others.wait()
                continue
            try:
                await self._hear()
            except (FileNotFoundError, ExceptionGroup):
                # A directory is gone already, or a name is no text and ends all hearing.
                self._changed.set()
                await self._pause(_AGAIN_S)
            except (OSError, RuntimeError) as error:  # such as no more of the system's watches
                log.warning("changes in %s are found late: %s", self._root, error)
                self.hears = False
                await self._pause(_LATER_S)

    async def _hear(self) -> None:
        """Hear of changes until there are other directories to listen to."""
        known = self._directories
        events = awatch(
            *(self._root / each for each in known if each.isprintable()),
            watch_filter=self._matters,
            debounce=1000,
            stop_event=self._others,
            rust_timeout=1000,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        async with aclosing(events):
            self._changed.set()  # by what nobody heard of before
            async for changes in events:
                # Another directory, or drive, may be there now, or none.
                if changes or not await self._is(known[""]):
                    self._changed.set()

    async def _is(self, identity: Identity) -> bool:
        with suppress(OSError):
            return await self._identity() == identity
        return False

    def _matters(self, _: Change, path: str) -> bool:
        """Whether a change may be of a file that is followed."""
        parts = Path(path).relative_to(self._root).parts
        named = parts[-1:] and (parts[-1] in RULES or not _MAIL.isdisjoint(parts))
        return bool(named) or not any(USUAL(f"{part}/") for part in parts)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._others.wait()
