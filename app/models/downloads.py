"""The models of the catalogue on this device: there, on their way, begun or not."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.models.catalogue import OFFERS, Offer
from app.models.download import fetch
from dragon.errors import DragonError


class DownloadState(StrEnum):
    """How far a model has come."""

    NONE = "none"
    PART = "part"
    COMING = "coming"
    HERE = "here"


@dataclass(frozen=True)
class Standing:
    """An offer, how many of its bytes are here, and why the last attempt failed, if it did."""

    offer: Offer
    stage: DownloadState
    there: int
    size: int
    problem: str = ""


class _EndedError(Exception):
    """Somebody does not want it any more."""


class _Download:
    """One attempt, in a thread that goes down with the service: what has come stays."""

    def __init__(self, offer: Offer, folder: Path) -> None:
        self.there, self.size, self.problem = 0, offer.size, ""
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(offer, folder), daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive() and not self.ended.is_set()

    def _run(self, offer: Offer, folder: Path) -> None:
        try:
            fetch(offer, folder, self._report)
        except DragonError as error:
            self.problem = error.message
        except _EndedError:
            pass  # what had come is deleted already

    def _report(self, there: int, size: int) -> None:
        if self.ended.is_set():
            raise _EndedError
        self.there, self.size = there, size


class Downloads:
    """At most one attempt at each offer."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Download] = {}

    def start(self, offer: Offer, folder: Path) -> None:
        """Fetch it into the folder, from where an earlier attempt has ended."""
        known = self._attempts.get(offer.name)
        if not offer.path(folder).exists() and not (known and known.running):
            self._attempts[offer.name] = _Download(offer, folder)

    def cancel(self, offer: Offer, folder: Path) -> None:
        """End it, and delete what has come."""
        known = self._attempts.pop(offer.name, None)
        if known:
            known.ended.set()
        offer.part(folder).unlink(missing_ok=True)

    def standings(self, folder: Path) -> list[Standing]:
        return [self._standing(offer, folder) for offer in OFFERS]

    def _standing(self, offer: Offer, folder: Path) -> Standing:
        known = self._attempts.get(offer.name)
        if offer.path(folder).exists():
            return Standing(offer, DownloadState.HERE, offer.size, offer.size)
        if known and known.running:
            return Standing(offer, DownloadState.COMING, known.there, known.size)
        part = offer.part(folder)
        there = part.stat().st_size if part.exists() else 0
        stage = DownloadState.PART if there else DownloadState.NONE
        return Standing(offer, stage, there, offer.size, known.problem if known else "")
