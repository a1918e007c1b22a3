"""When a document is deleted by itself.

Revision ID: 0010_expiry
Revises: 0009
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
