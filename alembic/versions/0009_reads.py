"""What programs were given of documents, in the ledger.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_reads",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("reader", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("passages", sa.JSON(), nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_ledger_reads"),
        sa.UniqueConstraint("id", name="uq_ledger_reads_id"),
    )


def downgrade() -> None:
    op.drop_table("ledger_reads")
