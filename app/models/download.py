"""Models to fetch from the hub: the catalogue, one download, and the downloads of the device.

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

from app.models.model import gigabytes
from dragon.errors import DragonError, NotFoundError, StorageError
from dragon.localizable import Localizable, localizable

_CHUNK = 1 << 18
_TIMEOUT_S = 20.0
_GOOD_AT = {
    "quick": localizable("offer.quick", "Quick even on old machines. Short, simple answers."),
    "light": localizable("offer.light", "Quick on most laptops. Answers of a few sentences."),
    "tongues": localizable("offer.tongues", "At home in many languages."),
    "thinks": localizable("offer.thinks", "Thinks before it answers. About a hundred languages."),
    "good": localizable("offer.good", "Good answers at a moderate pace."),
    "best": localizable("offer.best", "The best answers of these. Wants a strong machine."),
}
# The smallest first. Name, repository, file, size and memory at most in GB, licence, what for.
_TABLE = """
SmolLM2-360M HuggingFaceTB/SmolLM2-360M-Instruct-GGUF smollm2-360m-instruct-q8_0.gguf .39 .7 Apache-2.0 quick
Qwen3-0.6B   Qwen/Qwen3-0.6B-GGUF                Qwen3-0.6B-Q8_0.gguf               .64 4.4 Apache-2.0 quick
Gemma-3-1B   ggml-org/gemma-3-1b-it-GGUF         gemma-3-1b-it-Q4_K_M.gguf          .81 1.7 Gemma      tongues
Llama-3.2-1B bartowski/Llama-3.2-1B-Instruct-GGUF Llama-3.2-1B-Instruct-Q4_K_M.gguf .81 1.9 Llama-3.2  light
SmolLM2-1.7B HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF smollm2-1.7b-instruct-q4_k_m.gguf 1.06 2.7 Apache-2.0 light
Qwen3-1.7B   Qwen/Qwen3-1.7B-GGUF                Qwen3-1.7B-Q8_0.gguf               1.83 5.6 Apache-2.0 thinks
SmolLM3-3B   ggml-org/SmolLM3-3B-GGUF            SmolLM3-Q4_K_M.gguf                1.92 4.3 Apache-2.0 good
Llama-3.2-3B bartowski/Llama-3.2-3B-Instruct-GGUF Llama-3.2-3B-Instruct-Q4_K_M.gguf 2.02 5.8 Llama-3.2  good
Gemma-3-4B   ggml-org/gemma-3-4b-it-GGUF         gemma-3-4b-it-Q4_K_M.gguf          2.49 7.1 Gemma      tongues
Qwen3-4B     Qwen/Qwen3-4B-GGUF                  Qwen3-4B-Q4_K_M.gguf               2.5  7.3 Apache-2.0 thinks
Qwen3-8B     Qwen/Qwen3-8B-GGUF                  Qwen3-8B-Q4_K_M.gguf               5.03 9.9 Apache-2.0 best
"""  # noqa: E501


@dataclass(frozen=True)
class Offer:
    """A file of the hub; its size and the memory that it takes at most, in bytes."""

    name: str
    repository: str
    file: str
    size: int
    memory: int
    licence: str
    good_at: Localizable

    def path(self, folder: Path) -> Path:
        """Where it is kept; the list of models has it under this name, too."""
        return folder / f"{self.name}.gguf"

    def part(self, folder: Path) -> Path:
        """Where an incomplete download is kept."""
        return folder / f"{self.name}.part"


def _offer(name: str, repository: str, file: str, *facts: str) -> Offer:
    size, memory, licence, good_at = facts
    in_bytes = [round(float(each) * 1e9) for each in (size, memory)]
    return Offer(name, repository, file, in_bytes[0], in_bytes[1], licence, _GOOD_AT[good_at])


OFFERS = tuple(_offer(*line.split()) for line in _TABLE.strip().splitlines())


def offer_named(name: str) -> Offer:
    """The offer with this name, in any capitalisation. Raises `NotFoundError`."""
    for offer in OFFERS:
        if offer.name.lower() == name.lower():
            return offer
    raise NotFoundError(
        localizable(
            "offer.unknown",
            "No model called {name} is offered: `dragon models get --list` says what is.",
            name=repr(name),
        )
    )


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


def _only_here(file: BinaryIO) -> None:
    """Raises `DownloadError` if the file is being downloaded already."""
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
        raise StorageError(
            localizable("download.disk", "It cannot be stored: {why}", why=f"{error.strerror}")
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
