"""Vectors that come with the demo corpus: they are the embedder's own, and no others are used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dragon.retrieval.embedder import Embedder
from harness.services import DEMO_CORPUS
from peer.corpus.builder import build, embedded_texts
from peer.corpus.prebuilt import prebuilt, write
from tests.samples import embedder


class Counting(Embedder):
    """Notes what it embeds."""

    def __init__(self, fingerprint: str = embedder().fingerprint) -> None:
        super().__init__(embedder()._model, fingerprint)
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.seen += texts
        return super().embed(texts)


def test_the_demo_corpus_is_built_without_embedding(tmp_path: Path) -> None:
    counting = Counting()
    build(DEMO_CORPUS, tmp_path / "corpus", counting)
    assert counting.seen == [], "run: python -m peer.corpus.prebuilt peer/corpus/demo_corpus.tsv"


def test_its_vectors_are_those_of_the_embedder() -> None:
    some = embedded_texts(DEMO_CORPUS)[::100]
    known = prebuilt(DEMO_CORPUS, embedder())(some)
    np.testing.assert_allclose(known, embedder().embed(some), atol=1e-3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source.tsv"
    source.write_text("1\tTea\tTea is served at four.\n2\tLamp\tThe lamp is lit at dusk.\n")
    write(source, embedded_texts(source), embedder())
    return source


def test_what_has_changed_is_embedded(source: Path, tmp_path: Path) -> None:
    source.write_text("1\tTea\tTea is served at five.\n2\tLamp\tThe lamp is lit at dusk.\n")
    counting = Counting()
    build(source, tmp_path / "corpus", counting)
    assert counting.seen == ["Tea is served at five. (Tea)"]


@pytest.mark.parametrize("fault", ["of another embedder", "damaged"])
def test_vectors_that_are_of_no_use_are_no_fault(source: Path, tmp_path: Path, fault: str) -> None:
    counting = Counting("another") if fault == "of another embedder" else Counting()
    if fault == "damaged":
        source.with_suffix(".safetensors").write_bytes(b"no vectors")
    build(source, tmp_path / "corpus", counting)
    assert len(counting.seen) == 2
