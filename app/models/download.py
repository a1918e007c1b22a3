"""Fetching the catalogue's models from the hub: one download, and the downloads of the device.

A download that breaks off keeps what it has, and the next attempt continues there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import httpx2
from huggingface_hub import get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError

from app.models.catalogue import OFFERS, Offer
from app.models.model import gigabytes
from dragon.errors import DragonError, StorageError
from dragon.localizable import localizable

_CHUNK = 1 << 18
_TIMEOUT_S = 20.0


class DownloadError(DragonError):
    """A model could not be fetched; the next attempt continues where this one ended."""

    code = "download_failed"


def fetch(offer: Offer, folder: Path, report: Callable[[int, int], None]) -> Path:
    """Fetch the file, check its sum, and return its path.

    `report` gets the bytes received and the total, and may raise to end the download. Raises
    `DownloadError`, and `StorageError` if the disk has no room.
    """
    endpoint = os.environ.get("HF_ENDPOINT")
    path, part = offer.path(folder), offer.part(folder)
    url = hf_hub_url(offer.repository, offer.file, endpoint=endpoint)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _failures(offer), part.open("ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DownloadError(
                localizable("download.twice", "It is being downloaded already.")
            ) from error
        said = get_hf_file_metadata(url, endpoint=endpoint, timeout=_TIMEOUT_S)
        size, checksum = said.size or 0, said.etag
        needed, free = size - file.tell(), shutil.disk_usage(folder).free
        if needed > free:
            raise StorageError(
                localizable(
                    "download.room",
                    "It needs {needed} more on the disk, where {free} are free.",
                    needed=gigabytes(needed),
                    free=gigabytes(free),
                )
            )
        report(file.tell(), size)
        while (before := file.tell()) < size:
            try:
                for there in _more(said.location, file):
                    report(there, size)
            except httpx2.TransportError:
                # Retry as long as each attempt makes progress.
                if file.tell() == before:
                    raise
        file.seek(0)
        if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
            part.unlink()
            raise DownloadError(
                localizable(
                    "download.damaged",
                    "{name} came damaged, and was deleted. Try again.",
                    name=offer.name,
                )
            )
        report(size, size)  # if cancelled meanwhile, it must not replace another attempt's file
        part.replace(path)
    return path


def _more(url: str, file: BinaryIO) -> Iterator[int]:
    """Append the missing bytes; yields how many are there."""
    headers = {"Range": f"bytes={file.tell()}-", "Accept-Encoding": "identity"}
    with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
        response.raise_for_status()
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            file.seek(0)
            file.truncate()
        for chunk in response.iter_bytes(_CHUNK):
            file.write(chunk)
            yield file.tell()


@contextmanager
def _failures(offer: Offer) -> Iterator[None]:
    """Turn the errors of a download into ours."""
    try:
        yield
    except (HfHubHTTPError, httpx2.HTTPStatusError) as error:
        raise DownloadError(
            localizable(
                "download.refused",
                "The hub does not give {name} now (status {status}).",
                name=offer.name,
                status=error.response.status_code,
            )
        ) from error
    except (httpx2.HTTPError, ConnectionError) as error:
        raise DownloadError(
            localizable(
                "download.unreachable",
                "The hub cannot be reached. Check the connection to the internet, and try again.",
            )
        ) from error
    except OSError as error:
        why = str(error.strerror)
        raise StorageError(
            localizable("download.disk", "It cannot be stored: {why}", why=why)
        ) from error


class DownloadState(StrEnum):
    """How far a download has come."""

    NONE = "none"
    PART = "part"
    COMING = "coming"
    HERE = "here"


@dataclass(frozen=True)
class Standing:
    """The state of an offer here: bytes received, and why the last attempt failed, if it did."""

    offer: Offer
    stage: DownloadState
    there: int
    size: int
    problem: str = ""


class _EndedError(Exception):
    """The download was cancelled."""


class _Download:
    """One attempt, in a thread that ends with the service."""

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
            pass  # the partial file is deleted already

    def _report(self, there: int, size: int) -> None:
        if self.ended.is_set():
            raise _EndedError
        self.there, self.size = there, size


class Downloads:
    """At most one attempt at each offer."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Download] = {}

    def start(self, offer: Offer, folder: Path) -> None:
        """Fetch it into the folder, continuing an earlier attempt."""
        known = self._attempts.get(offer.name)
        if not offer.path(folder).exists() and not (known and known.running):
            self._attempts[offer.name] = _Download(offer, folder)

    def cancel(self, offer: Offer, folder: Path) -> None:
        """Cancel it, and delete the partial file."""
        if known := self._attempts.pop(offer.name, None):
            known.ended.set()
        offer.part(folder).unlink(missing_ok=True)

    def standings(self, folder: Path) -> list[Standing]:
        """How far each offer is."""
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
