"""How `dragon up` and the services that it starts take turns.

A service loads its models, reports that, and waits for its turn before it takes what only one may
have: port and database. So the next model is loaded while the current one still answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from dragon.errors import ConfigurationError

LOADED, SWITCH = b"l", b"s"
GO, FAILED = b"g", b"f"


class Gate:
    """The service's side. `leaving`: it is ending, by `leave`, so that another can take over."""

    def __init__(self, descriptor: int, leave: Callable[[], None] = lambda: None) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._leave = leave
        self._waiting: asyncio.Task[None] | None = None
        self.leaving = False

    def turn(self) -> None:
        """Report that the models are loaded, and wait for the turn to serve.

        Raises `ConfigurationError` if it never comes.
        """
        told = b""
        with suppress(OSError):  # it has hung up
            self._socket.send(LOADED)
            told = self._socket.recv(1)
        if not told:
            raise ConfigurationError("`dragon up` has ended, or no longer wants this model")
        self._socket.setblocking(False)

    @property
    def loading(self) -> bool:
        """Whether the model that was chosen is being loaded, or is about to take over."""
        return self.leaving or (self._waiting is not None and not self._waiting.done())

    def switch(self) -> None:
        """Ask for the chosen model to be loaded beside this one, and end once it is."""
        self._socket.send(SWITCH)
        if not self.loading:
            self._waiting = asyncio.create_task(self._switched())

    async def _switched(self) -> None:
        if await asyncio.get_running_loop().sock_recv(self._socket, 1) == GO:
            self.leaving = True
            self._leave()
