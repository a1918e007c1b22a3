"""What the cloud knows of earlier answers.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "known_answers",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("asked", sa.Boolean(), nullable=False),
        sa.Column("ranges", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_known_answers"),
    )


def downgrade() -> None:
    op.drop_table("known_answers")
