"""Everyday exchanges: a small model is shown those most like a message before it replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from dragon.models import EXCHANGES
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256, TextEmbedder

VECTORS = EXCHANGES.with_suffix(".npy")
"""Vectors of the messages by the packaged embedder, float16 [exchanges, dim]."""

_TASK, _FOREIGN = "task", ("german", "spanish")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Exchange:
    """A message that needs no document, its kind, and a reply."""

    kind: str
    message: str
    reply: str


@cache
def read() -> tuple[Exchange, ...]:
    """Read all exchanges that come with the package."""
    rows = map(json.loads, EXCHANGES.read_text("utf-8").splitlines())
    return tuple(Exchange(row["kind"], row["q"], row["reply"]) for row in rows)


class Exchanges:
    """Finds the exchanges whose messages are most like a given one."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder

    def nearest(self, message: str, count: int) -> list[Exchange]:
        """At most `count`, the nearest last; none if the message is most like a task.

        A model would copy the result of another task. There are vectors of the packaged embedder
        only, so another one finds none.
        """
        if self._embedder.fingerprint != PACKAGED_WEIGHTS_SHA256:
            return []
        likeness = self._vectors @ self._embedder.embed([message])[0]
        every = read()
        near = [every[i] for i in np.argsort(-likeness, kind="stable").tolist()]
        if near[0].kind == _TASK:
            return []
        return [*islice(self._talk(message, near), count)][::-1]

    def _talk(self, message: str, near: Sequence[Exchange]) -> Iterator[Exchange]:
        """Leave out tasks, and foreign exchanges that share no word with the message."""
        words = _words(message)
        for each in near:
            foreign = each.kind in _FOREIGN
            if each.kind != _TASK and not (foreign and words.isdisjoint(_words(each.message))):
                yield each

    @cached_property
    def _vectors(self) -> npt.NDArray[np.float32]:
        vectors: npt.NDArray[np.float32] = np.load(VECTORS).astype(np.float32)
        return vectors


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
