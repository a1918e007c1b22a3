"""Vectors that stay on disk: the index finds what comparing all of them finds."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from peer.corpus.shard import DiskIndex, VectorFile, build_index

DIM, COUNT = 24, 3000


def drawn(count: int, seed: int = 0) -> Vectors:
    """Vectors around a few: what is near is so for a reason."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(40, DIM))
    vectors = centres[random.integers(0, 40, count)] + 0.4 * random.normal(size=(count, DIM))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> VectorFile:
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "vectors").write_bytes(drawn(COUNT).astype("<f2").tobytes())
    opened = VectorFile(folder / "vectors", np.arange(COUNT) * 3 + 5, DIM)
    build_index(folder / "index", opened, lambda _: None)
    return opened


@pytest.fixture(scope="module")
def path(file: VectorFile) -> Path:
    return Path(file._file.name).with_name("index")


@pytest.fixture(scope="module")
def flat(file: VectorFile) -> VectorIndex:
    return file.in_memory()


def test_at_full_probe_it_finds_what_all_vectors_compared_find(
    file: VectorFile, path: Path, flat: VectorIndex
) -> None:
    whole = DiskIndex(path, file, probes=10**6, read=COUNT)
    for query in drawn(100, seed=1):
        assert whole.search(query, 20) == flat.search(query, 20)


def test_with_few_lists_read_it_finds_most_of_that(
    file: VectorFile, path: Path, flat: VectorIndex
) -> None:
    index = DiskIndex(path, file, probes=16)
    recalls = []
    for query in drawn(100, seed=2):
        best = {key for key, _ in flat.search(query, 5)}
        found = index.search(query, 32)
        assert found == sorted(found, key=lambda each: (-each[1], each[0]))
        recalls.append(len(best & {key for key, _ in found[:5]}) / 5)
    assert np.mean(recalls) >= 0.95


def test_its_lists_stay_on_disk(file: VectorFile, path: Path) -> None:
    index = DiskIndex(path, file)
    lists = faiss.downcast_InvertedLists(index._faiss.invlists)
    assert isinstance(lists, faiss.OnDiskInvertedLists)


def test_all_vectors_are_read_in_order_and_by_their_ids(
    file: VectorFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peer.corpus.shard._BLOCK", 700)
    ids, vectors = map(np.concatenate, zip(*file.blocks(), strict=True))
    assert ids.tolist() == list(range(5, 3 * COUNT + 5, 3))
    assert np.array_equal(vectors, drawn(COUNT).astype(np.float16).astype(np.float32))
    places = [1234, 0, COUNT - 1]
    assert np.array_equal(file.vectors(ids[places]), vectors[places])


def test_the_same_vectors_give_the_same_index(file: VectorFile, path: Path, tmp_path: Path) -> None:
    told: list[int] = []
    build_index(tmp_path / "again", file, told.append)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sum(told) == COUNT


def test_a_damaged_file_is_told(file: VectorFile, tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(b"no index")
    with pytest.raises(IndexFileError, match="missing or damaged"):
        DiskIndex(tmp_path / "index", file)
