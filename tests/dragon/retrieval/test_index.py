from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt
import pytest

from dragon.retrieval.index import IndexFileError, VectorIndex

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
    assert index.ids == [key for key in range(100, 150) if key not in {104, 105}]


def test_vectors_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        VectorIndex(DIM).add([1, 2], np.zeros((2, 3), dtype=np.float32))


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    index, path = filled(), tmp_path / "vectors.faiss"
    index.remove([101])
    index.save(path)
    loaded = VectorIndex.load(path, DIM)
    query = vectors(1, seed=3)[0]
    assert loaded.ids == index.ids
    assert loaded.search(query, 5) == index.search(query, 5)
    loaded.add([7], vectors(1))
    assert loaded.remove([100]) == 1
    assert os.listdir(tmp_path) == ["vectors.faiss"]


@pytest.mark.parametrize("keep", [0, 3, 40, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "vectors.faiss"
    filled().save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep < 1 else int(keep)])
    with pytest.raises(IndexFileError, match="missing or damaged"):
        VectorIndex.load(path, DIM)


def test_garbage_no_file_and_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.faiss"
    with pytest.raises(IndexFileError):
        VectorIndex.load(path, DIM)
    path.write_bytes(os.urandom(4096))
    with pytest.raises(IndexFileError):
        VectorIndex.load(path, DIM)
    faiss.write_index(faiss.IndexFlatIP(DIM), str(path))
    with pytest.raises(IndexFileError, match="not an index of vectors"):
        VectorIndex.load(path, DIM)
    filled().save(path)
    with pytest.raises(IndexFileError, match="length 17"):
        VectorIndex.load(path, DIM + 1)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vectors.faiss"
    filled(3).save(path)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space left"):
            filled(9).save(path)
    assert len(VectorIndex.load(path, DIM)) == 3
    assert os.listdir(tmp_path) == ["vectors.faiss"]


def test_threads_may_add_remove_search_and_save_at_once(tmp_path: Path) -> None:
    index, path = filled(), tmp_path / "vectors.faiss"

    def work(worker: int) -> None:
        ids = range(1000 * worker, 1000 * worker + 40)
        for key in ids:
            index.add([key], vectors(1, seed=key))
            index.search(vectors(1)[0], 5)
        index.save(path)
        assert index.remove(list(ids)) == 40

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 9)))
    assert index.ids == list(range(100, 150))
    assert len(VectorIndex.load(path, DIM)) >= 50


def test_vectors_come_back_for_ids_that_are_there() -> None:
    index = filled()
    index.remove([104])
    found = index.vectors([103, 104, 999, 110])
    assert list(found) == [103, 110]
    for key, vector in found.items():
        assert np.allclose(vector, vectors(50)[key - 100], atol=1e-3)
