"""Files for other purposes than searching are only kept: what was read of them is forgotten.

Revision ID: 0013
Revises: 0012
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Their vectors go at the next start, like all that are of no passage.
    op.execute(
        "DELETE FROM chunks WHERE document_id IN "
        "(SELECT id FROM documents WHERE purpose NOT IN ('user_data', 'assistants'))"
    )
    op.execute(
        "UPDATE documents SET chunks = 0, kind = '', status = 'processed', status_details = NULL "
        "WHERE purpose NOT IN ('user_data', 'assistants')"
    )


def downgrade() -> None:
    """What was read of them is not read again."""
