"""How certain text is that was recognised in a picture.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("chunks", sa.Column("confidence", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("chunks", "confidence")
