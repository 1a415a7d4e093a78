"""Signs of life of gateways, by whose number quotas are divided."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "gateways",
        sa.Column("gateway_id", sa.String(64), nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", name="pk_gateways"),
    )
