from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dragon.retrieval.index import IndexFileError, Segments, VectorIndex

DIM = 16


def vectors(count: int, seed: int = 0) -> npt.NDArray[np.float32]:
    drawn = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def filled(count: int = 50) -> VectorIndex:
    index = VectorIndex(DIM)
    index.add(range(100, 100 + count), vectors(count))
    return index


def test_search_equals_sorting_every_product() -> None:
    index, query = filled(), vectors(1, seed=9)[0]
    products = vectors(50) @ query
    best = np.argsort(-products)[:7]
    found = index.search(query, 7)
    assert [key for key, _ in found] == [100 + int(each) for each in best]
    assert np.allclose([score for _, score in found], products[best], atol=1e-3)


def test_only_what_is_allowed_and_not_hidden_is_found() -> None:
    index, query = filled(), vectors(1, seed=9)[0]
    every = index.search(query, 50)
    some, others = range(100, 130), [101, 107, 128]
    assert index.search(query, 50, some) == [hit for hit in every if hit[0] in some]
    assert index.search(query, 50, hidden=others) == [hit for hit in every if hit[0] not in others]
    both = index.search(query, 5, some, others)
    assert both == [hit for hit in every if hit[0] in some and hit[0] not in others][:5]


def test_equal_scores_come_in_the_order_of_ids() -> None:
    index = VectorIndex(DIM)
    same = np.repeat(vectors(1), 5, axis=0)
    index.add([9, 3, 7, 1, 5], same)
    assert [key for key, _ in index.search(same[0], 5)] == [1, 3, 5, 7, 9]


def test_an_empty_index_and_a_large_k() -> None:
    assert VectorIndex(DIM).search(vectors(1)[0], 3) == []
    assert len(filled(2).search(vectors(1)[0], 10)) == 2
    index = filled(2)
    index.add([], vectors(0))
    assert index.remove([]) == 0
    assert len(index) == 2


def test_removed_vectors_are_not_found() -> None:
    index = filled()
    target = vectors(50)[4]
    assert index.search(target, 1)[0][0] == 104
    assert index.remove([104, 105, 999]) == 2
    assert 104 not in dict(index.search(target, 50))
    assert index.held(range(1000)) == {*range(100, 150)} - {104, 105}


def test_vectors_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        VectorIndex(DIM).add([1, 2], np.zeros((2, 3), dtype=np.float32))


def test_threads_may_add_remove_and_search_at_once() -> None:
    index = filled()

    def work(worker: int) -> None:
        ids = range(1000 * worker, 1000 * worker + 40)
        for key in ids:
            index.add([key], vectors(1, seed=key))
            index.search(vectors(1)[0], 5)
        assert index.remove(list(ids)) == 40

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 9)))
    assert len(index) == 50
    assert index.held(range(10_000)) == {*range(100, 150)}


def test_vectors_come_back_for_ids_that_are_there() -> None:
    index = filled()
    index.remove([104])
    found = index.vectors([103, 104, 999, 110])
    assert list(found) == [103, 110]
    for key, vector in found.items():
        assert np.allclose(vector, vectors(50)[key - 100], atol=1e-3)


# On disk: whole, of their own document and embedder, or refused.

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
