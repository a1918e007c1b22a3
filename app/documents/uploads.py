"""Receives uploads: streams a multipart body into a file on disk, up to a size limit."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import Self

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from app.disk import require_room
from dragon.errors import DocumentError, DocumentTooLargeError, InvalidRequestError, StorageError
from dragon.localizable import localizable
from dragon.whole_file import synchronise

MAX_BYTES = 50 * 10**6
MAX_COLLECTION_CHARACTERS = 64

# Marks in a document's directory: its row is not written yet, or is about to be deleted.
ARRIVING, DELETING = "arriving", "deleting"
NO_NAME = localizable("file.no_name", "The file has no name.")
EMPTY = localizable("file.nothing", "The file is empty.")
_TOO_LARGE = localizable(
    "file.too_large", "The file is over the limit of {size} MB. Split it.", size=MAX_BYTES // 10**6
)
_MAX_FIELD_BYTES = 4096
_MAX_PARTS = 16
_MAX_NAME_CHARACTERS = 255
# A rejected body is still read up to this size, since most clients read no response before they
# have sent the whole request; beyond it the connection is cut.
_MAX_DRAINED_BYTES = 1 << 30


class Incoming:
    """A file being received, deleted at the end of its `async with` unless moved away."""

    def __init__(self, directory: Path) -> None:
        self._file = tempfile.NamedTemporaryFile(dir=directory, delete=False)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.path = Path(self._file.name)
        self.size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    @property
    def sha256(self) -> str:
        """Of the bytes written so far, hexadecimal."""
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        """Append data. Raises DocumentTooLargeError, or StorageError without room on the disk."""
        if self.size + len(data) > MAX_BYTES:
            raise DocumentTooLargeError(_TOO_LARGE, param="file")
        require_room(self.path.parent, len(data))
        self.size += len(data)
        self._digest.update(data)
        with _storing():
            await asyncio.to_thread(self._file.write, data)

    async def close(self) -> None:
        """Close the file, and return once it is on the disk."""
        with _storing():
            await asyncio.to_thread(self._file.close)
            await asyncio.to_thread(synchronise, self.path)

    def move(self, directory: Path) -> None:
        """Move the file to a document's directory, marked `ARRIVING` until `arrived`. Blocks."""
        directory.mkdir(exist_ok=True, mode=0o700)
        (directory / ARRIVING).touch()
        for old in ("text", DELETING):
            (directory / old).unlink(missing_ok=True)
        self.path.replace(directory / "original")
        synchronise(directory, directory.parent)


def arrived(directory: Path) -> None:
    """Note that the database has the document of this directory."""
    (directory / ARRIVING).unlink(missing_ok=True)


@contextmanager
def _storing() -> Iterator[None]:
    """Raise OSError as StorageError: the device is at fault, and the upload may be tried again."""
    try:
        yield
    except OSError as error:
        why = error.strerror or "?"
        unstored = "The device could not store the file: {why}. Send it again."
        raise StorageError(localizable("file.unstored", unstored, why=why)) from error


def identity(name: str, collection: str, sha256: str, owner: str) -> str:
    """The id of an owner's document with these bytes, name and collection."""
    place = f"{sha256} {name}" if not collection else f"{sha256} {collection}\0{name}"
    return document_id(place, owner)


def document_id(place: str, owner: str) -> str:
    """The id of an owner's document; `place` tells it from others of the owner."""
    place = f"{owner}\0\0\0{place}" if owner else place
    return "file-" + hashlib.sha256(place.encode()).hexdigest()[:24]


def clean_name(name: str) -> str:
    """The last component of a client's file name, printable, at most 255 characters long."""
    last = PureWindowsPath(name).name  # takes both slashes for separators
    return "".join(filter(str.isprintable, last)).strip()[-_MAX_NAME_CHARACTERS:]


def clean_collection(name: str) -> str:
    """A collection's name; empty is the default one. Raises InvalidRequestError."""
    clean = name.strip()
    if not clean.isprintable() or len(name) > MAX_COLLECTION_CHARACTERS:
        long = "A collection's name is at most {count} printable characters."
        message = localizable("collection.name", long, count=MAX_COLLECTION_CHARACTERS)
        raise InvalidRequestError(message, param="collection")
    return clean


class Upload:
    """A multipart/form-data body: a part `file`, and text fields, complete after `receive`."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.filename: str | None = None
        self.fields: dict[str, str] = {}
        self._parts = 0
        self._header = self._value = self._disposition = b""
        self._field: str | None = None
        self._in_file = False
        self._pieces: list[bytes] = []
        self._text = bytearray()
        self._complete = False

    async def receive(self, into: Incoming) -> None:
        """Read the body and write the file's bytes to `into`, one piece in memory at a time.

        Raises InvalidRequestError unless the body is complete and as described above, and what
        `Incoming.write` raises.
        """
        body = self._request.stream()
        length = self._request.headers.get("content-length", "")
        try:
            if length.isdecimal() and int(length) > MAX_BYTES + _MAX_PARTS * _MAX_FIELD_BYTES:
                raise DocumentTooLargeError(_TOO_LARGE, param="file")
            await self._read(body, into)
        except (InvalidRequestError, StorageError):
            drained = 0
            async for data in body:
                drained += len(data)
                if drained > _MAX_DRAINED_BYTES:
                    break
            raise
        await into.close()

    async def _read(self, body: AsyncIterator[bytes], into: Incoming) -> None:
        try:
            kind, options = parse_options_header(self._request.headers.get("content-type"))
            if kind != b"multipart/form-data" or not (boundary := options.get(b"boundary")):
                raise InvalidRequestError(
                    "Send multipart/form-data with the file in a part named 'file'.", param="file"
                )
            callbacks = {name[1:]: getattr(self, name) for name in dir(self) if name[:4] == "_on_"}
            parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]
            async for data in body:
                parser.write(data)
                for piece in self._pieces:
                    await into.write(piece)
                self._pieces.clear()
        except FormParserError as error:
            raise InvalidRequestError("The body is not valid multipart/form-data.") from error
        except ClientDisconnect as error:
            raise InvalidRequestError("The client left before the body was whole.") from error
        if not self._complete:
            raise InvalidRequestError("The body ends before its last part does.")
        if self.filename is None:
            raise InvalidRequestError(
                "The body has no part named 'file' with a file.", param="file"
            )

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _on_headers_finished(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise InvalidRequestError(f"The body has more than {_MAX_PARTS} parts.")
        _, options = parse_options_header(self._disposition.decode("latin-1"))
        self._disposition = b""
        self._field = options.get(b"name", b"").decode("utf-8", "replace")
        self._in_file = self._field == "file" and b"filename" in options
        if not self._in_file:
            return
        if self.filename is not None:
            raise InvalidRequestError("The body has more than one file.", param="file")
        self.filename = clean_name(options[b"filename"].decode("utf-8", "replace"))
        if not self.filename:
            raise DocumentError(NO_NAME, param="file")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._pieces.append(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > _MAX_FIELD_BYTES:
            raise InvalidRequestError(f"Field '{self._field}' is too long.", param=self._field)

    def _on_part_end(self) -> None:
        if not self._in_file and self._field:
            self.fields[self._field] = self._text.decode("utf-8", "replace")
        self._text.clear()

    def _on_end(self) -> None:
        self._complete = True
