"""Search in one version of the public corpus, whose shards answer as one.

Their answers merge exactly: the same code compares vectors in half precision, whether they are in
memory or picked by an index, BM25 counts words in all shards, and ids are numbers in the order of
the source.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dragon.errors import ConfigurationError, DragonError
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.find import CANDIDATES, distinct
from dragon.retrieval.index import IndexFileError, Vectors
from dragon.retrieval.lexical import content_words, doubtful, fused, likeliest, slips
from dragon.retrieval.relevance import Hit
from peer.corpus.shard import Scored, Shard, StoredPassage
from peer.corpus.versions import BUILD, MANIFEST, Manifest, Versions

log = logging.getLogger(__name__)

T = TypeVar("T")

_PLACES = 20_000
"""The most passages that a question's words are looked up in, the rarest words first; words that
would exceed it are left out."""

_LEAST_WEIGHT = 1e-6  # for a word in more than half of all passages, as in SQLite
_AGAIN_S = 1.0  # how often to check whether an excluded shard is back
_SEARCHES = 32  # the most concurrent requests to shards

_without: ContextVar[set[int]] = ContextVar("without")


class Corpus:
    """A version opened for search, by other processes if it is `far`. Thread-safe."""

    far = False

    def __init__(self, version: str, manifest: Manifest, shards: Sequence[Shard]) -> None:
        self.version = version
        self.manifest = manifest
        self._shards = shards

    @classmethod
    def open(
        cls, root: Path, embedder: TextEmbedder | None = None, version: str | None = None
    ) -> Self:
        """Open a version, by default the one to serve; every file is read and checked.

        With `embedder`, check that the vectors are that embedder's. Raises ConfigurationError,
        saying what to do, if there is no corpus, or if it is damaged, of another form, or built
        with another embedder.
        """
        versions = Versions(root)
        name, manifest = named(versions, version, embedder)
        path = versions.path(name)
        try:
            manifest.verify(path)
            shards = [
                Shard(path / shard_name(number), manifest.dimension)
                for number in range(manifest.shards)
            ]
        except ConfigurationError as error:
            raise versions.damaged(name, error.message) from error
        except (OSError, sqlite3.Error, IndexFileError, ValueError) as error:
            raise versions.damaged(name, error) from error
        corpus = cls(name, manifest, shards)
        if sum(map(len, shards)) != manifest.passages:
            corpus.close()
            raise versions.damaged(name, f"{path / MANIFEST} miscounts")
        return corpus

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    @contextmanager
    def counted(self) -> Iterator[set[int]]:
        """Yield the numbers of the shards that searches in this context leave out."""
        without = set[int]()
        token = _without.set(without)
        try:
            yield without
        finally:
            _without.reset(token)

    def search(self, query: str, vector: npt.NDArray[np.float32], k: int) -> list[Hit]:
        """Unscored candidates for the best k passages, near-duplicates removed."""
        wanted = max(CANDIDATES, 4 * k)
        near, worded = self.nearest(vector, wanted), self.worded(query, wanted)
        candidates = set(fused([key for key, _ in near], [key for key, _ in worded])[:wanted])

        def held(shard: Shard) -> list[tuple[StoredPassage, Vectors]]:
            rows = shard.passages(list(candidates))
            return list(zip(rows, shard.vectors([row.id for row in rows]), strict=True))

        found = [each for one in self._of_all(held) for each in one]
        found.sort(key=lambda each: each[0].id)
        return distinct(replace(_hit(row), vector=vector) for row, vector in found)

    def nearest(self, vector: Vectors, k: int) -> list[Scored]:
        return _best(self._of_all(lambda shard: shard.nearest(vector, k)), k)

    def worded(self, query: str, k: int) -> list[Scored]:
        """The k passages that share most words with the query, by BM25, best first, ties by id."""
        if not (weights := self._weights(query)):
            return []
        mean = self.manifest.words / self.manifest.passages
        return _best(self._of_all(lambda shard: shard.worded(weights, mean, k)), k)

    def spelled(self, question: str) -> dict[str, str]:
        """Corrections of words that no passage has: the likeliest passage word one slip away."""
        words = doubtful(question)
        there = self._frequencies(words)
        return {
            word: likeliest(found)
            for word in words
            if word not in there and (found := self._frequencies(list(slips(word))))
        }

    def near(self, hit: Hit) -> list[Hit]:
        number = shard_of(hit.document, len(self._shards))
        found = self._of([number], lambda shard: shard.near(hit.document, hit.id))
        return [_hit(row) for rows in found for row in rows]

    def _of_all(self, ask: Callable[[Shard], T]) -> Iterable[T]:
        return self._of(range(len(self._shards)), ask)

    def _of(self, numbers: Iterable[int], ask: Callable[[Shard], T]) -> Iterable[T]:
        """The answers of shards by their numbers; those that have none are left out."""
        return [ask(self._shards[number]) for number in numbers]

    def _weights(self, query: str) -> dict[str, float]:
        """Inverse document frequencies of the words to look up, the rarest first."""
        frequencies = self._frequencies(content_words(query))
        weights, left = {}, _PLACES
        for word, count in sorted(frequencies.items(), key=lambda each: (each[1], each[0])):
            if (left := left - count) < 0:
                break
            rarity = math.log((self.manifest.passages - count + 0.5) / (count + 0.5))
            weights[word] = max(rarity, _LEAST_WEIGHT)
        return weights

    def _frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """How many passages have each word; words that none has are left out."""
        frequencies = Counter[str]()
        for found in self._of_all(lambda shard: shard.frequencies(words)):
            frequencies.update(found)
        return frequencies


def named(
    versions: Versions, version: str | None, embedder: TextEmbedder | None
) -> tuple[str, Manifest]:
    """The name of a version, by default of the one to serve, and its manifest.

    Raises `ConfigurationError` if it does not exist, or has another embedder's vectors.
    """
    name = version or versions.current
    manifest = versions.manifest(name)
    if embedder is not None and embedder.fingerprint != manifest.embedder:
        raise ConfigurationError(f"{versions.path(name)} has another embedder's vectors. {BUILD}.")
    return name, manifest


def shard_of(document: str, shards: int) -> int:
    """The number of the shard, of `shards`, that has a document."""
    return zlib.crc32(document.encode()) % shards


def shard_name(number: int) -> str:
    return f"shard-{number}"


def _hit(row: StoredPassage) -> Hit:
    return Hit(*row[:4], score=0.0, relevance=0.0, context=row.context)


def _best(found: Iterable[Sequence[Scored]], k: int) -> list[Scored]:
    merged = (each for one in found for each in one)
    return sorted(merged, key=lambda each: (-each[1], each[0]))[:k]


class ShardError(DragonError):
    """A shard is down or late."""


Ask = Callable[[int, str, str, Sequence[Any]], Any]
"""Calls a method of `Shard` on a shard, by number, of a version. Raises `ShardError`."""


class FarShard:
    """Calls the methods of `Shard` in the process that serves it. They raise `ShardError`."""

    def __init__(self, number: int, version: str, ask: Ask) -> None:
        self._where = number, version
        self._ask = ask

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *values: self._ask(*self._where, method, values)


class FarCorpus(Corpus):
    """Asks all shards at once; one that fails or is late is excluded until it answers again."""

    far = True

    def __init__(self, version: str, manifest: Manifest, ask: Ask) -> None:
        shards = [cast(Shard, FarShard(n, version, ask)) for n in range(manifest.shards)]
        super().__init__(version, manifest, shards)
        self._threads = ThreadPoolExecutor(_SEARCHES, thread_name_prefix="shard")
        self._away: set[int] = set()
        self._closed = threading.Event()

    @classmethod
    def served(
        cls, root: Path, embedder: TextEmbedder, version: str | None, shards: int, ask: Ask
    ) -> FarCorpus:
        """Open a version, by default the one to serve; its shards check its files.

        Raises `ConfigurationError` if there is none, if its vectors are another embedder's, or if
        its number of shards is not the number served.
        """
        versions = Versions(root)
        name, manifest = named(versions, version, embedder)
        if manifest.shards != shards:
            raise ConfigurationError(
                f"{versions.path(name)} has {manifest.shards} shards, and {shards} are served: "
                "deploy the peer again"
            )
        return cls(name, manifest, ask)

    def close(self) -> None:
        """Stop looking for excluded shards.

        Searches in progress end; the threads end once nothing refers to the corpus.
        """
        self._closed.set()

    def _of(self, numbers: Iterable[int], ask: Callable[[Shard], T]) -> list[T]:
        without = _without.get(set())
        asked: dict[int, Future[T]] = {}
        for number in numbers:
            if number in self._away:
                without.add(number)
            else:
                asked[number] = self._threads.submit(ask, self._shards[number])
        answers = []
        for number, answer in asked.items():
            try:
                answers.append(answer.result())
            except ShardError as error:
                self._leave_out(number, error)
                without.add(number)
        return answers

    def _leave_out(self, number: int, error: ShardError) -> None:
        if number not in self._away:
            self._away.add(number)
            log.warning("shard %d is excluded: %s", number, error.message)
            # Not in the pool: an ending process would wait for it.
            threading.Thread(target=self._until_back, args=(number,), daemon=True).start()

    def _until_back(self, number: int) -> None:
        while not self._closed.wait(_AGAIN_S):
            with suppress(ShardError):
                self._shards[number].frequencies(["back"])
                self._away.discard(number)
                log.info("shard %d is back", number)
                return
