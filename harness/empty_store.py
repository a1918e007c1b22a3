"""A document store's derived data, without any: for runs that do without the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


class EmptyStore:
    """Stores no document KV (an `app.documents.ingestion.DerivedStore`)."""

    def start(self, documents: Iterable[str]) -> None:
        """There is nothing to remove."""

    async def fill(
        self, document: str, texts: Sequence[str], progress: Callable[[int], None]
    ) -> None:
        """Report all as done."""
        progress(len(texts))

    async def forget(self, document: str) -> None:
        """There is nothing to remove."""
