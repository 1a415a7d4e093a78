"""What a rollout's controller knows, and outcomes on their way to it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "rollout_states",
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("state", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", name="pk_rollout_states"),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            ["rollouts.rollout_id"],
            name="fk_rollout_states_rollout_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "rollout_outcomes",
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("gateway_id", sa.String(64), nullable=False),
        sa.Column("posted_at_ns", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint(
            "rollout_id", "gateway_id", "posted_at_ns", name="pk_rollout_outcomes"
        ),
        sa.ForeignKeyConstraint(
            ["rollout_id"],
            ["rollouts.rollout_id"],
            name="fk_rollout_outcomes_rollout_id",
            ondelete="CASCADE",
        ),
    )
