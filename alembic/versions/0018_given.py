"""The ledger keeps what the cloud was asked with, by kind.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ledger_answers", sa.Column("given", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("ledger_answers", sa.Column("given_digest", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("ledger_answers", "given_digest")
    op.drop_column("ledger_answers", "given")
