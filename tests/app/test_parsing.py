from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from app.parsing import Kind, parse
from dragon.errors import DocumentError
from tests.samples import pdf


async def test_pages_are_joined_by_form_feeds(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(pdf("One (1).", "", "Three."))
    assert await parse(source, "a.pdf", out) is Kind.PDF
    assert [page.strip() for page in out.read_text().split("\f")] == ["One (1).", "", "Three."]


async def test_a_parser_that_hangs_is_stopped(tmp_path: Path) -> None:
    source = tmp_path / "in"
    os.mkfifo(source)  # opening it waits for a writer that never comes
    start = time.monotonic()
    with pytest.raises(DocumentError, match="too much time"):
        await parse(source, "a.txt", tmp_path / "out", seconds=1)
    assert time.monotonic() - start < 5
    assert os.listdir(tmp_path) == ["in"]


async def test_a_parser_that_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"many words and more " * 2_000_000)
    with pytest.raises(DocumentError, match="too much memory"):
        await parse(source, "a.txt", tmp_path / "out", memory_bytes=100 << 20)
    assert os.listdir(tmp_path) == ["in"]


async def test_a_parser_that_computes_too_long_is_stopped(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(pdf(*["\n".join(["word " * 15] * 20_000)] * 8))
    with pytest.raises(DocumentError, match="too much time"):
        await parse(source, "a.pdf", tmp_path / "out", seconds=1)
    assert os.listdir(tmp_path) == ["in"]


async def test_a_cancelled_parse_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    source = tmp_path / "in"
    os.mkfifo(source)
    task = asyncio.create_task(parse(source, "a.txt", tmp_path / "out"))
    writer = await asyncio.to_thread(os.open, source, os.O_WRONLY)  # once the process reads it
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(BrokenPipeError):  # nobody reads it any more
        os.write(writer, b"text")
    os.close(writer)
    assert os.listdir(tmp_path) == ["in"]


async def test_the_largest_text_taken_is_within_the_limits(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(("All the words of it — and \U0001f409. " * 1_400_000).encode()[:50_000_000])
    source.write_bytes(source.read_bytes().decode("utf-8", "ignore").encode())
    assert await parse(source, "a.txt", tmp_path / "out") is Kind.TEXT
