"""Sources of a corpus, and an embedder that costs nothing: random directions for meanings."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragon.retrieval.embedder import Passage
from dragon.retrieval.index import Vectors

PASSAGES = [
    ("1", "Lake Baikal", "Lake Baikal in Siberia is the deepest lake on Earth: 1,642 metres."),
    ("2", "Bhutan", 'Its people call Bhutan "Druk Yul". Its capital is Thimphu.'),
    ("3", "Velcro", "George de Mestral, a Swiss engineer, invented Velcro in 1941."),
]


class StandIn:
    """The same text has the same direction."""

    dim = 16
    fingerprint = "stand-in"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, float32 [len(texts), dim]."""
        drawn = [np.random.default_rng(zlib.crc32(t.encode())).normal(size=self.dim) for t in texts]
        vectors = np.asarray(drawn, dtype=np.float32).reshape(-1, self.dim)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Of each text by itself."""
        return self.embed([text for text, _ in passages])


def tsv(path: Path) -> Path:
    lines = ["\t".join(passage) for passage in PASSAGES]
    path.write_text("id\ttitle\ttext\n" + "\n".join(lines) + "\n")
    return path


def jsonl(path: Path) -> Path:
    lines = [json.dumps({"id": i, "title": t, "text": x, "more": 1}) for i, t, x in PASSAGES]
    path.write_text("\n".join(lines))
    return path


def dpr(path: Path) -> Path:
    rows = []
    for identity, title, text in PASSAGES:
        doubled = text.replace('"', '""')
        rows.append(f'{identity}\t"{doubled}"\t{title}')
    path.write_text("id\ttext\ttitle\r\n" + "\r\n".join(rows) + "\r\n", newline="")
    return path


def headless(path: Path) -> Path:
    lines = ["\t".join(passage) for passage in PASSAGES]
    path.write_bytes(b"\xef\xbb\xbf" + "\n\n".join(lines).encode())
    return path


def parquet(path: Path) -> Path:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    ids, titles, texts = zip(*PASSAGES, strict=True)
    columns = {"id": [int(each) for each in ids], "more": ids, "title": titles, "text": texts}
    write_table(pa.table(columns), path)
    return path


def rows(path: Path, numbers: range) -> Path:
    """A document a number, of two sentences each, whose words are more or less rare."""
    lines = [
        f"{n}\tLine {n % 7}\tThe w{n % 3} of w{n % 50} has w{n}. "
        f"It is w{n % 11} {'far ' * (n % 5)}off."
        for n in numbers
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
