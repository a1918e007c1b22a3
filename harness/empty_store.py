"""A store of documents' derived data that keeps none: for runs without the model."""

from __future__ import annotations

from collections.abc import Iterable


class EmptyStore:
    """Stores no document KV (an `app.documents.erasure.DerivedStore`)."""

    def restrict(self, documents: Iterable[str]) -> None:
        """There is nothing to remove."""

    def admit(self, document: str) -> None:
        """There is nothing to keep."""

    def forget(self, document: str) -> None:
        """There is nothing to remove."""
