"""Document KV on disk: what the model computes for documents, kept between questions.

One file per row. Its name identifies the document, so that both are deleted together, and
everything that its bits depend on. The least recently used files make room for new ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from dragon.inference.backends.backend import KV, KVAccess
from dragon.inference.rows import Row

log = logging.getLogger(__name__)

_SUFFIX = ".kv"


class KVStore:
    """Keys and values of documents' rows in a directory; safe to use from several threads.

    `access` is the model's, None if its keys and values cannot be accessed; `limit` is the most
    bytes that all files may take. Without either nothing is kept. No method raises for disk errors:
    a file that cannot be read is a miss and removed; after a failed write nothing more is written.
    """

    def __init__(self, directory: Path, access: KVAccess | None, limit: int) -> None:
        self._directory = directory
        self._access = access
        self._limit = limit if access is not None else 0
        self._lock = threading.Lock()
        self._documents: set[str] | None = None
        self._sizes: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._total = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = [(path.stat(), path.name) for path in directory.iterdir()]
        except OSError as error:
            log.warning("document KV is not kept: %s", error)
            found = []
        for stat, name in sorted(found, key=lambda each: each[0].st_mtime):
            self._note(name, stat.st_size)
            if not name.endswith(_SUFFIX):
                self._remove(name)  # a partial file, left by a kill
        self._make_room(0)

    def wants(self, row: Row) -> bool:
        """Whether a row should be kept and is not yet: only rows of documents are."""
        if not row.document or self._limit <= 0:
            return False
        welcome = self._documents is None or _digest(row.document) in self._documents
        return welcome and self._name(row) not in self._sizes

    def load(self, row: Row) -> KV | None:
        if self._access is None:
            return None
        name = self._name(row)
        with self._lock:
            if name not in self._sizes:
                return None
            path = self._directory / name
            try:
                kv = self._access.parse(_checked(path))
                os.utime(path)
            except (OSError, ValueError) as error:
                log.warning("computing document KV again, %s is damaged: %s", name, error)
                self._remove(name)
                return None
            self._sizes.move_to_end(name)
            return kv

    def save(self, row: Row, kv: KV) -> None:
        """Keep a row, unless its document was forgotten meanwhile."""
        name = self._name(row)
        with self._lock:
            if not self.wants(row):
                return
            dumped = kv.dump()
            data = _head(name, dumped) + b"\n" + dumped
            if len(data) > self._limit:
                return
            self._make_room(len(data))
            temporary = self._directory / f"{name}.tmp"
            try:
                temporary.write_bytes(data)
                temporary.replace(self._directory / name)
            except OSError as error:
                log.warning("document KV is no longer kept: %s", error)
                self._limit = 0
                with contextlib.suppress(OSError):
                    temporary.unlink()
            else:
                self._note(name, len(data))

    def restrict(self, documents: Iterable[str]) -> None:
        """Keep rows of these documents only; those of others are removed."""
        with self._lock:
            self._documents = kept = {_digest(document) for document in documents}
            self._remove_all(lambda digest: digest not in kept)

    def admit(self, document: str) -> None:
        """Keep rows of this document, too."""
        with self._lock:
            if self._documents is not None:
                self._documents.add(_digest(document))

    def forget(self, document: str) -> None:
        """Remove all rows of a document, and accept none from answers that still hold some."""
        with self._lock:
            if self._documents is not None:
                self._documents.discard(_digest(document))
            gone = _digest(document)
            self._remove_all(lambda digest: digest == gone)

    def _name(self, row: Row) -> str:
        assert self._access is not None
        parts = self._access.fingerprint.encode() + array("q", row.tokens).tobytes()
        return f"{_digest(row.document)}-{hashlib.sha256(parts).hexdigest()[:40]}{_SUFFIX}"

    def _note(self, name: str, size: int) -> None:
        self._sizes[name] = size
        self._total += size

    def _make_room(self, size: int) -> None:
        while self._sizes and self._total + size > self._limit:
            self._remove(next(iter(self._sizes)))

    def _remove_all(self, unwanted: Callable[[str], bool]) -> None:
        for name in list(self._sizes):
            if unwanted(name.partition("-")[0]):
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._total -= self._sizes.pop(name)
        try:
            (self._directory / name).unlink(missing_ok=True)
        except OSError as error:
            log.warning("document KV could not be removed: %s", error)


def _digest(document: str) -> str:
    return hashlib.sha256(document.encode()).hexdigest()[:24]


def _checked(path: Path) -> bytes:
    """A file's content after its header; raises `ValueError` if the header does not match."""
    head, _, data = path.read_bytes().partition(b"\n")
    if head != _head(path.name, data):
        raise ValueError("its checksum or its name is another")
    return data


def _head(name: str, data: bytes) -> bytes:
    """Shows that a file is complete and in its place; a flipped bit would change answers."""
    return f"dragon {zlib.crc32(data):08x} {name}".encode()
