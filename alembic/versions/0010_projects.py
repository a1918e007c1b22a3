"""Projects; conversations are of one, pinned or archived.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("instruction", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projects"),
    )
    op.add_column("conversations", sa.Column("project", sa.String(), nullable=True))
    for name in ("pinned", "archived"):
        flag = sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())
        op.add_column("conversations", flag)
    op.create_index("ix_conversations_project", "conversations", ["project"])


def downgrade() -> None:
    op.drop_index("ix_conversations_project", "conversations")
    for name in ("archived", "pinned", "project"):
        op.drop_column("conversations", name)
    op.drop_table("projects")
