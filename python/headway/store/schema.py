"""The tables. A change here needs a migration; a test compares the two."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

NAME = 64
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

# One row: the number of the last change. Writers take its lock, so that revisions are committed
# in order and nobody who follows them misses one.
control = Table(
    "control",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
)

tenants = Table(
    "tenants",
    metadata,
    Column("tenant", String(NAME), primary_key=True),
    Column("weight", Float, nullable=False),
    Column("max_priority", Integer, nullable=False),
    Column("models", JSON, nullable=False),
    Column("disabled", Boolean, nullable=False),
)

quotas = Table(
    "quotas",
    metadata,
    Column(
        "tenant",
        String(NAME),
        ForeignKey("tenants.tenant", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("units_per_second", Float),
    Column("burst_units", Float),
)

# No reference to tenants: a key may belong to a tenant of the configuration.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String(8), primary_key=True),
    Column("tenant", String(NAME), nullable=False, index=True),
    Column("sha256", LargeBinary(32), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created_at_ns", BigInteger, nullable=False),
    Column("expires_at_ns", BigInteger),
    Column("revoked_at_ns", BigInteger),
    Column("description", String(200), nullable=False),
)

splits = Table(
    "splits",
    metadata,
    Column("model", String(NAME), primary_key=True),
    Column("shares", JSON, nullable=False),
    Column("source", String(16), nullable=False),
)

replica_registrations = Table(
    "replica_registrations",
    metadata,
    Column("worker_id", String(128), primary_key=True),
    Column("address", String(256), nullable=False),
    Column("models", JSON, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("software_version", String(64), nullable=False),
    Column("gateway_id", String(NAME), nullable=False),
    Column("registered_at_ns", BigInteger, nullable=False),
    Column("drained", Boolean, nullable=False),
)

gateways = Table(
    "gateways",
    metadata,
    Column("gateway_id", String(NAME), primary_key=True),
    Column("beats", BigInteger, nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("rollout_id", String(NAME), primary_key=True),
    Column("model", String(NAME), nullable=False, index=True),
    Column("baseline_version", String(NAME), nullable=False),
    Column("canary_version", String(NAME), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("step", Integer, nullable=False),
    Column("canary_share", Float, nullable=False),
    Column("policy", JSON, nullable=False),
    Column("started_at_ns", BigInteger, nullable=False),
    Column("ended_at_ns", BigInteger),
    Column("reason", Text, nullable=False),
    # At most one rollout of a model at a time, whoever asks.
    Index(
        "ux_rollouts_active_model",
        "model",
        unique=True,
        sqlite_where=text("ended_at_ns IS NULL"),
        postgresql_where=text("ended_at_ns IS NULL"),
    ),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column(
        "rollout_id",
        String(NAME),
        ForeignKey("rollouts.rollout_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("sequence", BigInteger, primary_key=True),
    Column("decided_at_ns", BigInteger, nullable=False),
    Column("decision", String(16), nullable=False),
    Column("test", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("baseline", JSON, nullable=False),
    Column("canary", JSON, nullable=False),
    Column("evidence", JSON, nullable=False),
)

rollout_states = Table(
    "rollout_states",
    metadata,
    Column(
        "rollout_id",
        String(NAME),
        ForeignKey("rollouts.rollout_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("state", JSON, nullable=False),
)

rollout_outcomes = Table(
    "rollout_outcomes",
    metadata,
    Column(
        "rollout_id",
        String(NAME),
        ForeignKey("rollouts.rollout_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("gateway_id", String(NAME), primary_key=True),
    Column("posted_at_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("counts", JSON, nullable=False),
)

# The audit log is also what followers read to learn what changed.
audit = Table(
    "audit",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("entry_id", String(32), nullable=False, unique=True),
    Column("at_ns", BigInteger, nullable=False),
    Column("tenant", String(NAME), nullable=False),
    Column("key_id", String(8), nullable=False),
    Column("gateway_id", String(NAME), nullable=False),
    Column("action", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("target", String(128), nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
)
