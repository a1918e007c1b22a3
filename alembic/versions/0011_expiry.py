"""When a document is deleted by itself.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("expires_at", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("documents", "expires_at")
