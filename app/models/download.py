"""A file of the hub, fetched: what has come stays when it breaks off, and is gone on from."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx2
from huggingface_hub import get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError

from app.models.catalogue import Offer
from app.models.model import gigabytes
from dragon.errors import DragonError, StorageError
from dragon.localizable import localizable

_CHUNK = 1 << 18
_TIMEOUT_S = 20.0


class DownloadError(DragonError):
    """A model could not be fetched; trying again goes on where this ended."""

    code = "download_failed"


def fetch(offer: Offer, folder: Path, report: Callable[[int, int], None]) -> Path:
    """Fetch the file, check its sum, and return its path.

    `report` is told how many bytes are there, of how many, and may raise to end it. Raises
    `DownloadError`, and `StorageError` where it has no room.
    """
    endpoint = os.environ.get("HF_ENDPOINT")
    path, part = offer.path(folder), offer.part(folder)
    url = hf_hub_url(offer.repository, offer.file, endpoint=endpoint)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _failures(offer), part.open("ab+") as file:
        _only_here(file)
        said = get_hf_file_metadata(url, endpoint=endpoint, timeout=_TIMEOUT_S)
        size, checksum = said.size or 0, said.etag
        _require_room(folder, size - file.tell())
        report(file.tell(), size)
        while (before := file.tell()) < size:
            try:
                for there in _more(said.location, file):
                    report(there, size)
            except httpx2.TransportError:
                # As long as each attempt brings something on, it gets there.
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
        report(size, size)  # ended meanwhile, it must not take the place of another attempt
        part.replace(path)
    return path


def _more(url: str, file: BinaryIO) -> Iterator[int]:
    """Append what is not there yet; yields the bytes that are."""
    headers = {"Range": f"bytes={file.tell()}-", "Accept-Encoding": "identity"}
    with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
        response.raise_for_status()
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            file.seek(0)
            file.truncate()
        for chunk in response.iter_bytes(_CHUNK):
            file.write(chunk)
            yield file.tell()


def _only_here(file: BinaryIO) -> None:
    """Two at once would write into each other's file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DownloadError(
            localizable("download.twice", "It is being downloaded already.")
        ) from error


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            localizable(
                "download.room",
                "It needs {needed} more on the disk, where {free} are free.",
                needed=gigabytes(needed),
                free=gigabytes(free),
            )
        )


@contextmanager
def _failures(offer: Offer) -> Iterator[None]:
    """What went wrong on the way, in a sentence."""
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
        raise StorageError(
            localizable("download.disk", "It cannot be stored: {why}", why=f"{error.strerror}")
        ) from error
