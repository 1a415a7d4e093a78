"""Alembic's scripts, one a schema; applied in order at the start of a gateway."""
