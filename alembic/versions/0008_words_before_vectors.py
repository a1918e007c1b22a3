"""A document has a kind once all of its sentences are stored; no KV is filled ahead.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was cut off, or failed, has a kind but not all of its sentences: it is read again.
    op.execute("UPDATE documents SET kind = '' WHERE status <> 'processed'")
    op.drop_column("documents", "cached")


def downgrade() -> None:
    cached = sa.Column("cached", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("documents", cached)
