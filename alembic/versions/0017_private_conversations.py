"""A conversation is private by itself: so far it was if its last message was.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    flag = sa.Column("private", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("conversations", flag)
    op.execute(
        "UPDATE conversations SET private = 1 WHERE leaf IN (SELECT id FROM messages WHERE private)"
    )


def downgrade() -> None:
    op.drop_column("conversations", "private")
