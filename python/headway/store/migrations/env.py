"""Runs the scripts on the connection that `headway.store.migrate` hands over."""

from alembic import context

from headway.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite's changes of schema are transactional too, since the engine begins transactions.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
