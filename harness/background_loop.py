"""An event loop on a thread of its own, for servers beside tests that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A running loop, stopped at the end: give it work by `run_coroutine_threadsafe`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
