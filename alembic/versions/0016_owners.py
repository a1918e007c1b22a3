"""Whose rows they are: those that there are belong to the device's own key.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_SHAREABLE = ("documents", "chunks")
_OWNED = (
    *("watched_folders", "watched_files", "conversations", "messages"),
    *("ledger_answers", "ledger_reads", "ledger_entries"),
)
# Two owners may each have one of the same name, or text.
_KEYED = {"projects": "name", "known_answers": "digest"}


def _owner() -> sa.Column[str]:
    return sa.Column("owner", sa.String(), nullable=False, server_default="")


def upgrade() -> None:
    for table in (*_SHAREABLE, *_OWNED, *_KEYED):
        op.add_column(table, _owner())
    for table in _SHAREABLE:
        flag = sa.Column("shared", sa.Boolean(), nullable=False, server_default=sa.false())
        op.add_column(table, flag)
    for table, name in _KEYED.items():
        with op.batch_alter_table(table, recreate="always") as batch:
            batch.drop_constraint(f"pk_{table}", type_="primary")
            batch.create_primary_key(f"pk_{table}", ["owner", name])
    op.create_index("ix_documents_owner", "documents", ["owner"])


def downgrade() -> None:
    """What others than the device's own key have made is lost."""
    op.drop_index("ix_documents_owner", "documents")
    for table in (*_SHAREABLE, *_OWNED, *_KEYED):
        op.execute(f"DELETE FROM {table} WHERE owner <> ''")  # noqa: S608
    op.execute("DELETE FROM message_search WHERE message NOT IN (SELECT id FROM messages)")
    for table, name in _KEYED.items():
        with op.batch_alter_table(table, recreate="always") as batch:
            batch.drop_constraint(f"pk_{table}", type_="primary")
            batch.create_primary_key(f"pk_{table}", [name])
    for table in _SHAREABLE:
        op.drop_column(table, "shared")
    for table in (*_SHAREABLE, *_OWNED, *_KEYED):
        op.drop_column(table, "owner")
