"""Runs the migrations on the database that app.storage.database.migrate or alembic.ini names."""

from alembic import context
from sqlalchemy import create_engine, event

from app.storage.database import is_ours
from app.storage.tables import Base

config = context.config


def run() -> None:
    """Migrate in one transaction: a migration that fails or is killed leaves the old schema."""
    url = config.attributes.get("url") or config.get_main_option("sqlalchemy.url")
    engine = create_engine(url)

    # sqlite3 by itself commits before every change of the schema.
    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection, _record):
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            include_name=is_ours,
            transactional_ddl=True,
            render_as_batch=True,  # SQLite cannot alter most of a table in place
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


run()
