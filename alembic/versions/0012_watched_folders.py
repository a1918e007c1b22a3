"""Watched folders with their files, and which documents somebody uploaded.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    flag = sa.Column("by_hand", sa.Boolean(), nullable=False, server_default=sa.true())
    op.add_column("documents", flag)
    op.create_table(
        "watched_folders",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("collection", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_watched_folders"),
        sa.UniqueConstraint("path", name="uq_watched_folders_path"),
    )
    op.create_table(
        "watched_files",
        sa.Column("folder_id", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=True),
        sa.Column("changed_ns", sa.Integer(), nullable=True),
        sa.Column("sha256", sa.String(), nullable=True),
        sa.Column("problem", sa.String(), nullable=True),
        sa.Column("document_id", sa.String(), nullable=True),
        sa.Column("previous_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("folder_id", "path", name="pk_watched_files"),
        sa.ForeignKeyConstraint(
            ["folder_id"],
            ["watched_folders.id"],
            name="fk_watched_files_folder_id_watched_folders",
            ondelete="CASCADE",
        ),
        *(
            sa.ForeignKeyConstraint(
                [column],
                ["documents.id"],
                name=f"fk_watched_files_{column}_documents",
                ondelete="SET NULL",
            )
            for column in ("document_id", "previous_id")
        ),
    )
    for column in ("sha256", "document_id", "previous_id"):
        op.create_index(f"ix_watched_files_{column}", "watched_files", [column])


def downgrade() -> None:
    op.drop_table("watched_files")
    op.drop_table("watched_folders")
    op.drop_column("documents", "by_hand")
