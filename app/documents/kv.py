"""Document KV cache on the device, filled in the background once a document is indexed.

An answer that needs a row not yet cached computes and stores it itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from dragon.errors import PreemptedError
from dragon.inference.backends.torch.kv_store import KVStore
from dragon.inference.decoder import document_kv
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.prompt_rows import document_row

_PAUSE_S = 0.05


class DocumentKV:
    """Fills a KV store with the rows that chat answers use, one per sentence.

    Rows of plain completions have other tokens; they are stored on first use.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, store: KVStore) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._store = store
        self._turn = asyncio.Lock()

    def start(self, documents: Iterable[str]) -> None:
        """Remove the KV of any document not listed."""
        self._store.restrict(documents)

    async def fill(
        self, document: str, texts: Sequence[str], progress: Callable[[int], None]
    ) -> None:
        """Compute a document's rows, one document at a time, until the store is full.

        `progress` receives the number of chunks done. Raises DragonError if the model fails.
        """
        self._store.admit(document)
        model = self._engine.model
        if model.kv is None:
            return
        done = 0
        async with self._turn:
            progress(done)
            for text in texts:
                row = document_row(self._tokenizer, text, document, raw=False)
                tokens = len(row.tokens)
                if row not in self._store and tokens < model.context:
                    if self._store.room < model.kv.kv_bytes(tokens):
                        return  # never evict rows that answers use for rows that none may ever use
                    await self._keep(row)
                done += 1
                progress(done)
                await asyncio.sleep(0)  # yield to the event loop even if every row is cached

    async def forget(self, document: str) -> None:
        """Remove a document's files; a job still running writes none afterwards."""
        await asyncio.to_thread(self._store.forget, document)

    async def _keep(self, row: Row) -> None:
        while True:
            try:
                return await asyncio.wrap_future(self._engine.submit_idle(lambda: self._run(row)))
            except PreemptedError:
                await asyncio.sleep(_PAUSE_S)

    def _run(self, row: Row) -> None:
        """Runs on the engine's thread; raises `PreemptedError` once an answer is waiting for it."""
        document_kv(self._engine.model, row, self._store, lambda: self._engine.wanted)
