"""What answers with a privacy budget spent, and on which passages.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ledger_answers", sa.Column("epsilon", sa.JSON(), nullable=True))
    op.add_column("ledger_answers", sa.Column("passages", sa.JSON(), nullable=True))
    op.create_table(
        "passage_spending",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("order", sa.Double(), nullable=False),
        sa.Column("rdp", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "order", name="pk_passage_spending"),
    )


def downgrade() -> None:
    op.drop_table("passage_spending")
    op.drop_column("ledger_answers", "passages")
    op.drop_column("ledger_answers", "epsilon")
