"""Vectors on disk: whole, of their own document and embedder, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dragon.retrieval.index import IndexFileError
from dragon.retrieval.vector_files import Segments

IDS = [3, 7]
VECTORS = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def files(tmp_path: Path) -> Segments:
    files = Segments(tmp_path, "an-embedder", 4)
    files.write("a", IDS, VECTORS)
    return files


def test_what_is_written_is_read(files: Segments) -> None:
    ids, vectors = files.read("a")
    assert ids == IDS
    np.testing.assert_array_equal(vectors, VECTORS)


def test_a_damaged_file_is_refused(files: Segments, tmp_path: Path) -> None:
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with pytest.raises(IndexFileError):
            files.read("a")


def test_a_file_of_another_document_is_refused(files: Segments, tmp_path: Path) -> None:
    (path,) = tmp_path.iterdir()
    path.rename(path.with_stem("b"))
    with pytest.raises(IndexFileError, match="does not belong here"):
        files.read("b")
    with pytest.raises(IndexFileError, match="missing"):
        files.read("a")


@pytest.mark.parametrize(("fingerprint", "dim"), [("another", 4), ("an-embedder", 5)])
@pytest.mark.usefixtures("files")
def test_vectors_of_another_embedder_are_refused(
    tmp_path: Path, fingerprint: str, dim: int
) -> None:
    with pytest.raises(IndexFileError):
        Segments(tmp_path, fingerprint, dim).read("a")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    files: Segments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        files.write("a", IDS, VECTORS + 1)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_array_equal(files.read("a")[1], VECTORS)


def test_only_the_files_of_known_documents_stay(files: Segments, tmp_path: Path) -> None:
    files.write("b", [9], VECTORS[:1])
    (tmp_path / "tmpabc").touch()
    files.restrict({"b"})
    assert [path.stem for path in tmp_path.iterdir()] == ["b"]
    files.remove("b")
    files.remove("b")
    assert not list(tmp_path.iterdir())
