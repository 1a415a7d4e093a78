"""A worker's copy of one model version, as the gateway sees it."""

from dataclasses import dataclass, field

from headway._core import ReplicaCondition
from headway.gateway.catalog import Pool
from headway.gateway.session import WorkerSession
from headway.v1 import fleet_pb2, types_pb2


@dataclass(slots=True, eq=False)
class Replica:
    """One replica: what a batch is sent to."""

    handle: int
    pool: Pool
    worker_id: str
    session: WorkerSession
    # Handle of the model on the session; -1 before the worker greeted.
    wire_handle: int = -1
    condition: ReplicaCondition = ReplicaCondition.CONNECTING

    @property
    def name(self) -> str:
        """worker/model/version."""
        return f"{self.worker_id}/{self.pool.name}"


@dataclass(slots=True, eq=False)
class Worker:
    """A registered worker: its lease, its session and its replicas."""

    worker_id: str
    instance_id: str
    address: str
    lease_id: str
    expires_at_ns: int
    session: WorkerSession
    max_outstanding: int
    labels: dict[str, str]
    software_version: str
    state: "fleet_pb2.WorkerState"
    cards: list[types_pb2.ModelCard]
    drained_by_operator: bool = False
    # By (model, version).
    replicas: dict[tuple[str, str], Replica] = field(default_factory=dict)
    not_ready: set[tuple[str, str]] = field(default_factory=set)
