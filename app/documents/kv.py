"""Document KV on the device: computed in the background once a document is indexed, gone with it.

An answer that comes before a document's turn computes what it needs, and keeps it.
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
    """Fills a store with the rows that answers will ask for: one a sentence, as in a chat.

    Rows of plain completions, whose tokens differ, are kept when they are first used.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, store: KVStore) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._store = store
        self._turn = asyncio.Lock()

    def start(self, documents: Iterable[str]) -> None:
        """Remove what is kept of any document but these."""
        self._store.restrict(documents)

    async def fill(
        self, document: str, texts: Sequence[str], progress: Callable[[int], None]
    ) -> None:
        """Compute a document's rows when its turn comes, as far as there is room for them.

        Raises DragonError when the model fails.
        """
        self._store.admit(document)
        model = self._engine.model
        done = 0
        async with self._turn:
            progress(done)
            for text in texts:
                row = document_row(self._tokenizer, text, document, raw=False)
                tokens = len(row.tokens)
                if row not in self._store and tokens < model.context:
                    if self._store.room < model.kv_bytes(tokens):
                        return  # what is in use is worth more than what may never be
                    await self._keep(row)
                done += 1
                progress(done)
                await asyncio.sleep(0)  # others have a turn, even when all is there already

    async def forget(self, document: str) -> None:
        """Remove a document's files; none comes after, though an errand may yet end."""
        await asyncio.to_thread(self._store.forget, document)

    async def _keep(self, row: Row) -> None:
        while True:
            try:
                return await asyncio.wrap_future(self._engine.submit_idle(lambda: self._run(row)))
            except PreemptedError:
                await asyncio.sleep(_PAUSE_S)

    def _run(self, row: Row) -> None:
        """On the engine's thread; raises `PreemptedError` as soon as an answer waits for it."""
        model = self._engine.model
        model.abandon = lambda: self._engine.wanted
        document_kv(model, row, self._store)
