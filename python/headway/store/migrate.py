"""Brings a database to the schema of this version. Forward only."""

import logging
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from headway.errors import StartupError

_log = logging.getLogger(__name__)

LOCK_KEY: Final = 0x6865_6164_0001
"""Advisory lock of PostgreSQL under which one process migrates; the others wait."""


def alembic_config() -> Config:
    """Alembic's configuration; the migrations are part of the package."""
    config = Config()
    config.set_main_option("script_location", "headway.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def newest() -> str:
    """The schema of this version."""
    return str(ScriptDirectory.from_config(alembic_config()).get_current_head())


def schemas() -> list[str]:
    """All schemas there ever were, oldest first."""
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    return [script.revision for script in reversed(list(scripts))]


def upgrade(connection: Connection, target: str = "head") -> str | None:
    """Migrates inside the transaction of `connection`, all or nothing.

    Returns: the schema found, None for an empty database.

    Raises:
      StartupError: the schema is of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in schemas():
        raise StartupError(
            f"the store's schema is {found!r}, which this version does not know (its own is "
            f"{newest()!r}); run the version that wrote it, or a newer one"
        )
    if found != target and found != newest():
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        _log.info("store migrated", extra={"from": found or "empty", "to": target})
    return found
