"""Rollouts and their verdicts; a name for each audit entry, so that none is written twice."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ACTIVE = sa.text("ended_at_ns IS NULL")


def upgrade() -> None:
    """Adds the tables and the name, which old entries get from their number."""
    op.create_table(
        "rollouts",
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("baseline_version", sa.String(64), nullable=False),
        sa.Column("canary_version", sa.String(64), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("canary_share", sa.Float, nullable=False),
        sa.Column("policy", sa.JSON, nullable=False),
        sa.Column("started_at_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_at_ns", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", name="pk_rollouts"),
    )
    op.create_index("ix_rollouts_model", "rollouts", ["model"])
    op.create_index(
        "ux_rollouts_active_model",
        "rollouts",
        ["model"],
        unique=True,
        sqlite_where=_ACTIVE,
        postgresql_where=_ACTIVE,
    )
    op.create_table(
        "verdicts",
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("decided_at_ns", sa.BigInteger, nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("test", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("baseline", sa.JSON, nullable=False),
        sa.Column("canary", sa.JSON, nullable=False),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", "sequence", name="pk_verdicts"),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            ["rollouts.rollout_id"],
            name="fk_verdicts_rollout_id",
            ondelete="CASCADE",
        ),
    )
    with op.batch_alter_table("audit") as audit:
        audit.add_column(sa.Column("entry_id", sa.String(32)))
    op.execute("UPDATE audit SET entry_id = 'revision-' || CAST(revision AS VARCHAR)")
    with op.batch_alter_table("audit") as audit:
        audit.alter_column("entry_id", existing_type=sa.String(32), nullable=False)
        audit.create_unique_constraint("uq_audit_entry_id", ["entry_id"])
