"""What a search of the person's documents finds, and where it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Select

from app.documents.readers.sniff import Kind
from app.owners import DEVICE
from app.storage.tables import Chunk, Document
from dragon.retrieval.index import Vectors
from dragon.retrieval.relevance import Hit

T = TypeVar("T")


@dataclass(frozen=True)
class DocumentHit(Hit):
    """A chunk of an uploaded document: `title` is the file's name.

    `start` and `end` are character offsets in the document's parsed text; `page` counts from 1 and
    is None for what has no pages. `confidence` is in percent, of text that was recognised in a
    picture. What a table answers has the `query` it comes from, in SQL. A
    passage of several sentences has their texts. A sentence that answers has the paragraph that is
    `around` it, and stands for so many `others` that say otherwise. `owner` is its
    document's.
    """

    page: int | None
    start: int
    end: int
    kind: str = ""
    query: str | None = None
    sentences: tuple[str, ...] = ()
    confidence: int | None = None
    around: str = ""
    others: int = 0
    owner: str = DEVICE

    @property
    def tabular(self) -> bool:
        """Whether it is a row of a table file, which stands alone."""
        return bool(self.kind) and Kind(self.kind).tabular


@dataclass(frozen=True)
class Follows:
    """What a question follows: the hit that the last reply was written from. It was `asked` in
    words that may mean little without that."""

    hit: DocumentHit
    asked: str


@dataclass(frozen=True)
class Scope:
    """Where to look: in documents and collections, of which None is all.

    A question that leans on a conversation `follows` it.
    """

    documents: Sequence[str] | None = None
    collections: Sequence[str] | None = None
    follows: Follows | None = None

    @property
    def limited(self) -> bool:
        """Whether it restricts anything."""
        return self.documents is not None or self.collections is not None

    def within(self, statement: Select[T]) -> Select[T]:
        """The statement restricted to the documents in scope."""
        if self.documents is not None:
            statement = statement.where(Document.id.in_(self.documents))
        if self.collections is not None:
            statement = statement.where(Document.collection.in_(self.collections))
        return statement


EVERYTHING = Scope()


def hit_of(chunk: Chunk, filename: str, kind: str, vector: Vectors | None) -> DocumentHit:
    """A chunk as a hit that is not scored yet."""
    return DocumentHit(
        id=chunk.id,
        document=chunk.document_id,
        title=filename,
        text=chunk.text,
        score=0.0,
        relevance=0.0,
        context=chunk.context,
        vector=vector,
        kind=kind,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
        confidence=chunk.confidence,
        owner=chunk.owner,
    )
