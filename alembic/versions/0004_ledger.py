"""The ledger of what left the device.

Revision ID: 0004
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_answers",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=True),
        sa.Column("drafts", sa.Integer(), nullable=True),
        sa.Column("answer", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_ledger_answers"),
        sa.UniqueConstraint("id", name="uq_ledger_answers_id"),
    )
    op.create_table(
        "ledger_entries",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_ledger_entries"),
    )
    op.create_index("ix_ledger_entries_answer", "ledger_entries", ["answer"])


def downgrade() -> None:
    op.drop_table("ledger_entries")
    op.drop_table("ledger_answers")
