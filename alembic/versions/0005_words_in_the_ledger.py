"""The words of answers that left the device.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, kind in (
        ("asked", sa.String()),
        ("words", sa.JSON()),
        ("digest", sa.String()),
        ("sources", sa.JSON()),
    ):
        op.add_column("ledger_answers", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name in ("sources", "digest", "words", "asked"):
        op.drop_column("ledger_answers", name)
