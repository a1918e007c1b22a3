"""Document KV on the device: computed in the background once a document is indexed, gone with it.

An answer that comes before a document's turn computes what it needs, and keeps it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from dragon.decoder import Row, document_kv
from dragon.engine import Engine
from dragon.errors import DragonError, PreemptedError
from dragon.kv_store import KVStore
from dragon.retrieval.rows import document_row
from dragon.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_PAUSE_S = 0.05


class DocumentKV:
    """Fills a store with the rows that answers will ask for: one a sentence, as in a chat.

    Rows of plain completions, whose tokens differ, are kept when they are first used.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, store: KVStore) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._store = store
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, documents: Iterable[str]) -> None:
        """Remove what is kept of any document but these."""
        self._store.restrict(documents)

    def submit(self, document: str, texts: Sequence[str]) -> None:
        """Compute a document's rows when its turn comes, as far as there is room for them."""
        self._store.admit(document)
        task = asyncio.create_task(self._compute(document, texts), name=f"KV of {document}")
        self._tasks[document] = task
        task.add_done_callback(lambda _: self._tasks.pop(document, None))

    async def forget(self, document: str) -> None:
        """Remove a document's files; none comes after."""
        if task := self._tasks.get(document):
            task.cancel()
            await asyncio.wait([task])
        # An errand under way may yet end: the store keeps nothing of it.
        await asyncio.to_thread(self._store.forget, document)

    async def close(self) -> None:
        """Stop."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(self, document: str, texts: Sequence[str]) -> None:
        model = self._engine.model
        async with self._turn:
            for text in texts:
                row = document_row(self._tokenizer, text, document, raw=False)
                tokens = len(row.tokens)
                if row in self._store or tokens >= model.context:
                    continue
                if self._store.room < model.kv_bytes(tokens):
                    return  # what is in use is worth more than what may never be
                try:
                    await self._keep(row)
                except DragonError as error:
                    log.info("document KV is left for later: %s", error.message)
                    return

    async def _keep(self, row: Row) -> None:
        while True:
            try:
                return await asyncio.wrap_future(self._engine.errand(lambda: self._run(row)))
            except PreemptedError:
                await asyncio.sleep(_PAUSE_S)

    def _run(self, row: Row) -> None:
        """On the engine's thread; raises `PreemptedError` as soon as an answer waits for it."""
        model = self._engine.model
        model.abandon = lambda: self._engine.wanted
        document_kv(model, row, self._store)
