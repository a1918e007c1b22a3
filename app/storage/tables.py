"""The tables of the device's database."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Dialect,
    ForeignKey,
    MetaData,
    String,
    false,
    literal_column,
    true,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from app.owners import acting
from app.storage.owned import Owned, Shareable
from dragon.localizable import Localizable

_MARK = "\x1f"
"""Separates, in the column, a message from its translation data in JSON."""


class LocalizableText(TypeDecorator[str]):
    """Text; for a `Localizable`, code and values are stored, too."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if not isinstance(value, Localizable):
            return value
        return value + _MARK + json.dumps(value.as_json())

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or _MARK not in value:
            return value
        return Localizable.from_json(json.loads(value.partition(_MARK)[2]))


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
    """A document's status, in OpenAI's terms."""

    UPLOADED = "uploaded"
    PROCESSED = "processed"
    ERROR = "error"


class Document(Shareable, Base):
    """A stored file.

    Its id is a hash of its name, bytes and the collection that it was uploaded to; for a watched
    file, of its bytes and collection.

    It has a `kind` once all of its sentences are in `chunks`; it is processed once each has a
    vector, too. If it `replaces`, others of its name and collection are then deleted; until then
    none of it is found. It is deleted at `expires_at` (Unix seconds, like all times) and, unless it
    was uploaded `by_hand`, once no watched file has it any more. `properties` is the file's own
    metadata (`readers.common.Properties`).
    """

    __tablename__ = "documents"

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(index=True, default=acting, server_default="")
    filename: Mapped[str]
    purpose: Mapped[str] = mapped_column(default="user_data")
    collection: Mapped[str] = mapped_column(index=True, server_default="")
    kind: Mapped[str] = mapped_column(default="")  # a value of readers.sniff.FileKind, or ""
    bytes: Mapped[int]
    created_at: Mapped[int] = mapped_column(index=True, default=lambda: int(time.time()))
    status: Mapped[str] = mapped_column(index=True, default=Status.UPLOADED)
    status_details: Mapped[str | None] = mapped_column(LocalizableText)
    chunks: Mapped[int] = mapped_column(server_default="0", default=0)  # so far
    replaces: Mapped[bool] = mapped_column(server_default=false(), default=False)
    expires_at: Mapped[int | None]
    by_hand: Mapped[bool] = mapped_column(server_default=true(), default=True)
    properties: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


upload_order: ColumnElement[int] = literal_column("documents.rowid")
"""The order of uploads, even within one second."""


class Chunk(Shareable, Base):
    """A sentence of a document; its id is also that of its vector and of its full-text row.

    Ids are never reused (autoincrement), so that a stale vector of a deleted chunk cannot be
    mistaken for that of a new one. `confidence` is that of its page, in percent, if its text was
    recognised in a picture.
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
    confidence: Mapped[int | None]


class WatchedFolder(Owned, Base):
    """A folder whose files are documents of a collection; `path` is absolute."""

    __tablename__ = "watched_folders"

    id: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str] = mapped_column(unique=True)
    collection: Mapped[str]


class WatchedFile(Owned, Base):
    """A file of a watched folder; `path` is relative to it, `changed_ns` as in `folders.scan`.

    `size`, `changed_ns` and `sha256` are those of the content that was read last, null before. It
    has a `problem` if it could not be read, else its document. One with neither was deleted by the
    user, and stays out. Until its content can be found, that of the `previous` document is.
    """

    __tablename__ = "watched_files"

    folder_id: Mapped[str] = mapped_column(
        ForeignKey("watched_folders.id", ondelete="CASCADE"), primary_key=True
    )
    path: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int | None]
    changed_ns: Mapped[int | None]
    sha256: Mapped[str | None] = mapped_column(index=True)
    problem: Mapped[str | None] = mapped_column(LocalizableText)
    document_id: Mapped[str | None] = mapped_column(
        ForeignKey("documents.id", ondelete="SET NULL"), index=True
    )
    previous_id: Mapped[str | None] = mapped_column(
        ForeignKey("documents.id", ondelete="SET NULL"), index=True
    )


class MessageState(StrEnum):
    """The state of a message; a question is done from the start."""

    WRITING = "writing"
    DONE = "done"
    STOPPED = "stopped"
    ERROR = "error"


class Phrase(StrEnum):
    """A phrase of the device's own in a message, which the page shows in its language.

    The record's `phrases` say where: start and end in characters, and which.
    """

    NO_ANSWER = "no_answer"
    REDACTED = "redacted"


class Project(Owned, Base):
    """A collection's standing instruction, for the conversations of its name.

    Every collection is a project; a row here makes one without documents a project, too.
    """

    __tablename__ = "projects"

    owner: Mapped[str] = mapped_column(primary_key=True, default=acting, server_default="")
    name: Mapped[str] = mapped_column(primary_key=True)
    instruction: Mapped[str]


class Conversation(Owned, Base):
    """A tree of messages; `leaf` ends the branch shown. Times are Unix seconds.

    `project` names the collection that it asks, if it has one. `private`: what is asked next stays
    on the device; each message has its own flag for whether it did.
    """

    __tablename__ = "conversations"

    id: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    created_at: Mapped[int]
    updated_at: Mapped[int] = mapped_column(index=True)
    leaf: Mapped[str | None]
    project: Mapped[str | None] = mapped_column(index=True)
    pinned: Mapped[bool] = mapped_column(server_default=false(), default=False)
    archived: Mapped[bool] = mapped_column(server_default=false(), default=False)
    private: Mapped[bool] = mapped_column(server_default=false(), default=False)


class StoredMessage(Owned, Base):
    """A question or an answer; messages with the same parent are branches, ordered by `number`.

    `record` is what the page shows besides an answer's text, as in its WebSocket messages; `tokens`
    is per-token provenance. The virtual table `message_search` indexes the text.
    """

    __tablename__ = "messages"

    id: Mapped[str] = mapped_column(primary_key=True)
    conversation_id: Mapped[str] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), index=True
    )
    parent_id: Mapped[str | None] = mapped_column(
        ForeignKey("messages.id", ondelete="CASCADE"), index=True
    )
    number: Mapped[int]
    role: Mapped[str]  # user or assistant
    text: Mapped[str]
    private: Mapped[bool]
    state: Mapped[str]  # a value of MessageState
    created_at: Mapped[int]
    record: Mapped[dict[str, Any]] = mapped_column(JSON)
    tokens: Mapped[list[Any]] = mapped_column(JSON)


class KnownAnswer(Owned, Base):
    """The parts of an answer that the cloud knows, by SHA-256 (`app.generation.cloud_view`)."""

    __tablename__ = "known_answers"

    owner: Mapped[str] = mapped_column(primary_key=True, default=acting, server_default="")
    digest: Mapped[str] = mapped_column(primary_key=True)
    asked: Mapped[bool]
    ranges: Mapped[list[Any]] = mapped_column(JSON)


class PassageSpending(Base):
    """The RDP that a passage, by its digest, has spent at an order (`app.ledger.spending`)."""

    __tablename__ = "passage_spending"

    digest: Mapped[str] = mapped_column(primary_key=True)
    order: Mapped[float] = mapped_column(primary_key=True)
    rdp: Mapped[float]


class LedgerAnswer(Owned, Base):
    """An answer in the ledger and, once finished, what left for it.

    `documents`, `drafts` and `answer` count 5-grams of documents. `asked` is what was asked of the
    cloud (`app.ledger.leakage.Left`), `words` what it was sent of the answer, and `digest` their
    SHA-256. The words are null if a document they may come from, one of `sources`, was deleted
    since. `given` is what the cloud was asked with (`app.ledger.leakage.Part`), null if its chat
    was deleted since; `given_digest` is its SHA-256. `epsilon` is what was allowed and spent of a
    privacy budget, `passages` those it was spent on.
    """

    __tablename__ = "ledger_answers"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    started_at: Mapped[float]
    private: Mapped[bool]
    documents: Mapped[int | None]
    drafts: Mapped[int | None]
    answer: Mapped[int | None]
    asked: Mapped[str | None]
    words: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    digest: Mapped[str | None]
    given: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    given_digest: Mapped[str | None]
    sources: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    epsilon: Mapped[dict[str, float] | None] = mapped_column(JSON(none_as_null=True))
    passages: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))


class LedgerRead(Owned, Base):
    """A program's read of the user's documents (`app.ledger.writer`).

    `bytes` is the size of what it was given. `passages` is null if one of their documents was
    deleted since; `digest` is their SHA-256.
    """

    __tablename__ = "ledger_reads"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    at: Mapped[float]
    reader: Mapped[str]
    tool: Mapped[str]
    answer: Mapped[str | None]
    bytes: Mapped[int]
    passages: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    digest: Mapped[str]


class LedgerEntry(Owned, Base):
    """An entry of the ledger's hash chain (`app.ledger`); `at` in Unix seconds, hashes hex."""

    __tablename__ = "ledger_entries"

    seq: Mapped[int] = mapped_column(primary_key=True)
    answer: Mapped[str] = mapped_column(index=True)
    at: Mapped[float]
    kind: Mapped[str]
    bytes: Mapped[int]
    digest: Mapped[str]
    hash: Mapped[str]
