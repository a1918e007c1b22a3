"""The tables of documents, read when a question first comes near one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from app.documents.readers.sniff import Kind
from app.documents.tables.records import Table, tables_in
from app.documents.texts import text_of

_KEPT = 16


@dataclass(frozen=True)
class Shelf:
    """Tables of the documents under `files`, of those used last. A document never changes."""

    files: Path
    _tables: OrderedDict[str, Sequence[Table]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)  # searches run in threads

    def of(self, document: str, kind: str) -> Sequence[Table]:
        """A document's tables; none if it is gone, or of a kind that has none. It reads a file."""
        if not (kind and Kind(kind).has_tables):
            return ()
        with self._lock:
            if (kept := self._tables.get(document)) is None:
                if not (text := text_of(self.files, document)):
                    return ()
                kept = tables_in(text)
            self._tables[document] = kept
            self._tables.move_to_end(document)
            while len(self._tables) > _KEPT:
                self._tables.popitem(last=False)
            return kept

    def forget(self, document: str) -> None:
        """Drop the tables of a document that is deleted."""
        with self._lock:
            self._tables.pop(document, None)
