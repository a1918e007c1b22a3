"""Vectors on disk: whole, of their own document and embedder, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dragon.retrieval.index import IndexFileError, Segments

IDS = [3, 7]
VECTORS = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def files(tmp_path: Path) -> Segments:
    files = Segments(tmp_path, "an-embedder", 4)
    files.write("a", IDS, VECTORS)
    return files


@pytest.fixture
def path(files: Segments) -> Path:
    (path,) = files.of("a")
    return path


def test_what_is_written_is_read(files: Segments, path: Path) -> None:
    ids, vectors = files.read(path)
    assert ids == IDS
    np.testing.assert_array_equal(vectors, VECTORS)


def test_a_document_has_a_file_a_part(files: Segments) -> None:
    files.write("a", [9], VECTORS[:1])
    files.write("ab", [10], VECTORS[:1])
    assert [files.read(path)[0] for path in files.of("a")] == [IDS, [9]]


def test_a_damaged_file_is_refused(files: Segments, path: Path) -> None:
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with pytest.raises(IndexFileError):
            files.read(path)


def test_a_file_of_another_document_is_refused(files: Segments, path: Path) -> None:
    other = path.rename(path.with_stem("b.3"))
    with pytest.raises(IndexFileError, match="does not belong here"):
        files.read(other)
    with pytest.raises(IndexFileError, match="missing"):
        files.read(path)


@pytest.mark.parametrize(("fingerprint", "dim"), [("another", 4), ("an-embedder", 5)])
def test_vectors_of_another_embedder_are_refused(path: Path, fingerprint: str, dim: int) -> None:
    with pytest.raises(IndexFileError):
        Segments(path.parent, fingerprint, dim).read(path)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    files: Segments, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        files.write("a", IDS, VECTORS + 1)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_array_equal(files.read(path)[1], VECTORS)


def test_only_the_files_of_known_documents_stay(files: Segments, tmp_path: Path) -> None:
    files.write("b", [9], VECTORS[:1])
    (tmp_path / "tmpabc").touch()
    (tmp_path / "b.safetensors").touch()  # of a version that had one a document
    kept = files.restrict({"b"})
    assert kept == {"b": list(tmp_path.iterdir())} == {"b": files.of("b")}
    files.remove("b")
    files.remove("b")
    assert not list(tmp_path.iterdir())
