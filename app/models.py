"""The tables of the device's database."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ForeignKey, MetaData, false
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Constraints have names, so that migrations can change them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Status(StrEnum):
    """Where a document stands, in OpenAI's words."""

    UPLOADED = "uploaded"
    PROCESSED = "processed"
    ERROR = "error"


class Document(Base):
    """An uploaded file. Its id is made from name, collection and bytes; times are Unix seconds.

    `replaces`: once it is processed, others of its name in its collection are deleted. `cached`:
    the model has computed what it keeps of it.
    """

    __tablename__ = "documents"

    id: Mapped[str] = mapped_column(primary_key=True)
    filename: Mapped[str]
    purpose: Mapped[str]
    collection: Mapped[str] = mapped_column(index=True, server_default="")
    kind: Mapped[str]  # a value of app.parsing.Kind, "" before it is parsed
    bytes: Mapped[int]
    created_at: Mapped[int] = mapped_column(index=True)
    status: Mapped[str] = mapped_column(index=True)  # a value of Status
    status_details: Mapped[str | None]
    chunks: Mapped[int] = mapped_column(server_default="0")  # so far
    replaces: Mapped[bool] = mapped_column(server_default=false())
    cached: Mapped[bool] = mapped_column(server_default=false())


class Chunk(Base):
    """A sentence of a document; its id is its vector's in the index and its full-text row's.

    Ids are never used twice (autoincrement), so that a vector left over from a deleted chunk can
    not be taken for that of a new one.
    """

    __tablename__ = "chunks"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(primary_key=True)
    document_id: Mapped[str] = mapped_column(
        ForeignKey("documents.id", ondelete="CASCADE"), index=True
    )
    text: Mapped[str]
    context: Mapped[str]
    page: Mapped[int | None]
    start: Mapped[int]
    end: Mapped[int]


class LedgerAnswer(Base):
    """An answer in the ledger, and how many 5-grams of documents left with it, once it is over."""

    __tablename__ = "ledger_answers"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    started_at: Mapped[float]
    private: Mapped[bool]
    documents: Mapped[int | None]
    drafts: Mapped[int | None]
    answer: Mapped[int | None]


class LedgerEntry(Base):
    """A link of the ledger's chain (`app.ledger`); `at` is in Unix seconds, hashes are hex."""

    __tablename__ = "ledger_entries"

    seq: Mapped[int] = mapped_column(primary_key=True)
    answer: Mapped[str] = mapped_column(index=True)
    at: Mapped[float]
    kind: Mapped[str]
    bytes: Mapped[int]
    digest: Mapped[str]
    hash: Mapped[str]
