from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from app.documents.uploads import Incoming, Upload
from dragon.errors import InvalidRequestError

BODY = (
    b'--edge\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
    b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a b.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\nline\r\n--edg\r\n-\r\n--edge\r\n"
    b'Content-Disposition: form-data; name="later"\r\n\r\nyes\r\n--edge--\r\n'
)
FILE = b"line\r\n--edg\r\n-"


async def received(
    directory: Path, pieces: Iterator[bytes], *, leaves: bool = False
) -> tuple[Upload, bytes]:
    async def receive() -> dict[str, Any]:
        piece = next(pieces, None)
        if piece is None and leaves:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    headers = [(b"content-type", b"multipart/form-data; boundary=edge")]
    form = Upload(Request({"type": "http", "method": "POST", "headers": headers}, receive))
    async with Incoming(directory) as incoming:
        await form.receive(incoming)
        return form, incoming.path.read_bytes()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
async def test_however_the_body_is_cut_the_file_is_the_same(tmp_path: Path, size: int) -> None:
    pieces = (BODY[start : start + size] for start in range(0, len(BODY), size))
    form, content = await received(tmp_path, pieces)
    assert content == FILE
    assert form.filename == "a b.txt"
    assert form.fields == {"purpose": "assistants", "later": "yes"}
    assert os.listdir(tmp_path) == []


async def test_a_body_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    end = BODY.index(b"--edge--")
    for length in range(end):
        with pytest.raises(InvalidRequestError):
            await received(tmp_path, iter([BODY[:length]]))
    assert os.listdir(tmp_path) == []


async def test_a_client_that_leaves_is_an_error_of_the_client(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="left"):
        await received(tmp_path, iter([BODY[:99]]), leaves=True)
