"""Collections, replacing, chunk counts, and full text of the chunks.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Words are compared without case and accents, as dragon.retrieval.lexical does. The text itself
# stays in `chunks` alone; triggers keep the two together.
_FULL_TEXT = (
    """
    CREATE VIRTUAL TABLE chunks_fts USING fts5(
        text, content='chunks', content_rowid='id', tokenize='unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
        INSERT INTO chunks_fts(rowid, text) VALUES (new.id, new.text);
    END
    """,
    """
    CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
        INSERT INTO chunks_fts(chunks_fts, rowid, text) VALUES ('delete', old.id, old.text);
    END
    """,
    """
    CREATE TRIGGER chunks_fts_update AFTER UPDATE OF text ON chunks BEGIN
        INSERT INTO chunks_fts(chunks_fts, rowid, text) VALUES ('delete', old.id, old.text);
        INSERT INTO chunks_fts(rowid, text) VALUES (new.id, new.text);
    END
    """,
    "INSERT INTO chunks_fts(chunks_fts) VALUES ('rebuild')",
)


def upgrade() -> None:
    # Without recreating the table: chunks would go with the old one.
    for column in (
        sa.Column("collection", sa.String(), nullable=False, server_default=""),
        sa.Column("chunks", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("replaces", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("cached", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("documents", column)
    op.create_index("ix_documents_collection", "documents", ["collection"])
    op.execute(
        "UPDATE documents SET chunks = "
        "(SELECT count(*) FROM chunks WHERE chunks.document_id = documents.id)"
    )
    for statement in _FULL_TEXT:
        op.execute(statement)


def downgrade() -> None:
    for name in ("insert", "delete", "update"):
        op.execute(f"DROP TRIGGER chunks_fts_{name}")
    op.execute("DROP TABLE chunks_fts")
    op.drop_index("ix_documents_collection", "documents")
    for name in ("cached", "replaces", "chunks", "collection"):
        op.drop_column("documents", name)
