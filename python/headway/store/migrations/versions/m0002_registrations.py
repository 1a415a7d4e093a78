"""Replica registrations with an operator's drain; descriptions of keys."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the table and the column."""
    op.create_table(
        "replica_registrations",
        sa.Column("worker_id", sa.String(128), nullable=False),
        sa.Column("address", sa.String(256), nullable=False),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("software_version", sa.String(64), nullable=False),
        sa.Column("gateway_id", sa.String(64), nullable=False),
        sa.Column("registered_at_ns", sa.BigInteger, nullable=False),
        sa.Column("drained", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name="pk_replica_registrations"),
    )
    with op.batch_alter_table("api_keys") as keys:
        keys.add_column(sa.Column("description", sa.String(200), server_default="", nullable=False))
