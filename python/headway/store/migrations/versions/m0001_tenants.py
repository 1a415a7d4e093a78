"""Tenants, keys, quotas, splits and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the first tables."""
    op.create_table(
        "control",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_control"),
    )
    op.execute("INSERT INTO control (id, revision) VALUES (1, 0)")
    op.create_table(
        "tenants",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("max_priority", sa.Integer, nullable=False),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenants"),
    )
    op.create_table(
        "quotas",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("units_per_second", sa.Float),
        sa.Column("burst_units", sa.Float),
        sa.PrimaryKeyConstraint("tenant", name="pk_quotas"),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name="fk_quotas_tenant", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(8), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_at_ns", sa.BigInteger, nullable=False),
        sa.Column("expires_at_ns", sa.BigInteger),
        sa.Column("revoked_at_ns", sa.BigInteger),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "splits",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("shares", sa.JSON, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("model", name="pk_splits"),
    )
    op.create_table(
        "audit",
        sa.Column("revision", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(8), nullable=False),
        sa.Column("gateway_id", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("target", sa.String(128), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True)),
        sa.Column("after", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("revision", name="pk_audit"),
    )
