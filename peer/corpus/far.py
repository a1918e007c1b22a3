"""A version of the corpus whose shards are remote, each served by its own process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, cast

from dragon.errors import ConfigurationError, DragonError
from dragon.retrieval.embedder import TextEmbedder
from peer.corpus.shard import Shard
from peer.corpus.store import Corpus, named
from peer.corpus.versions import Manifest, Versions

log = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_S = 1.0
"""How often to check whether an excluded shard is back."""

_SEARCHES = 32
"""The most concurrent requests to shards."""

_without: ContextVar[set[int]] = ContextVar("without")


class ShardError(DragonError):
    """A shard is down or late."""


Ask = Callable[[int, str, str, Sequence[Any]], Any]
"""Calls a method of `Shard` on a shard, by number, of a version. Raises `ShardError`."""


class FarShard:
    """A remote shard: every method of `Shard`, asked of the process that serves it.

    Methods raise `ShardError`.
    """

    def __init__(self, number: int, version: str, ask: Ask) -> None:
        self._where = number, version
        self._ask = ask

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *values: self._ask(*self._where, method, values)


class FarCorpus(Corpus):
    """Asks all shards at once. One that fails or is late is excluded until it answers again.

    A search without it finds what the others have.
    """

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

    @contextmanager
    def counted(self) -> Iterator[set[int]]:
        without = set[int]()
        token = _without.set(without)
        try:
            yield without
        finally:
            _without.reset(token)

    def close(self) -> None:
        """Stop looking for excluded shards.

        Searches in progress end; the threads end once nothing refers to the corpus.
        """
        self._closed.set()

    def _of(self, numbers: Iterable[int], ask: Callable[[Shard], T]) -> list[T]:
        without = _without.get(None)
        asked: dict[int, Future[T]] = {}
        for number in numbers:
            if number not in self._away:
                asked[number] = self._threads.submit(ask, self._shards[number])
            elif without is not None:
                without.add(number)
        answers = []
        for number, answer in asked.items():
            try:
                answers.append(answer.result())
            except ShardError as error:
                self._leave_out(number, error)
                if without is not None:
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
