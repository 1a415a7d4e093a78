"""A batch on its way: what the gateway keeps of it, and what the worker is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway._core import Batch
from headway.gateway.decisions import MAX_COMPANIONS, BatchTrace
from headway.gateway.pending import Pending
from headway.gateway.replica import Replica
from headway.gateway.session import WorkerSession
from headway.v1 import inference_pb2, worker_pb2

_OVERDUE_NS = 5_000_000_000
"""Wait for a batch that nobody waits for any more. Runtimes that cannot be stopped need some."""


@dataclass(slots=True, eq=False)
class Flight:
    """A batch on its way: what was sent, to whom, and for whom.

    `twin`: the late batch that this is a copy of, or the copy of this one; 0 for none.
    """

    batch_id: int
    replica: Replica
    session: WorkerSession
    members: dict[int, Pending]
    info: inference_pb2.BatchInfo
    units: int
    predicted_ns: int
    sent_ns: int
    trace: BatchTrace
    twin: int = 0

    def overdue(self, now_ns: int) -> bool:
        """Whether all its members ended long ago, and it should have been executed long ago."""
        limit_ns = now_ns - _OVERDUE_NS
        return self.sent_ns + self.predicted_ns <= limit_ns and all(
            member.ended and member.record.ended_ns <= limit_ns for member in self.members.values()
        )


def trace_of(
    batch: Batch,
    tickets: Sequence[int],
    replica: str,
    other: str,
    live: Mapping[int, Pending],
    now_ns: int,
) -> BatchTrace:
    """What is kept of an execution, for whoever asks.

    Args:
      batch: as formed.
      tickets: its members', read from it once.
      replica: name of where it goes.
      other: of the replica it was weighed against; "" for none.
      live: requests by ticket.
      now_ns: the present.
    """
    return BatchTrace(
        batch.id,
        replica,
        len(tickets),
        batch.rows,
        batch.units,
        int(batch.reason),
        batch.predicted_ns,
        now_ns,
        tuple(live[ticket].request_id for ticket in tickets[:MAX_COMPANIONS]),
        batch.score_ns,
        other,
        batch.other_score_ns,
        hedge_of=batch.hedge_of,
        pipelined=batch.is_pipelined,
    )


def add_item(execute: worker_pb2.ExecuteBatch, pending: Pending, now_ns: int) -> None:
    """Adds a member to a batch's message, with the time it has left."""
    request = pending.request
    # Field by field: arguments by name take twice as long.
    item = execute.items.add()
    item.item_id = pending.ticket
    item.remaining_ns = max(1, pending.deadline_ns - now_ns)
    item.input.CopyFrom(request.input)
    item.request_id = pending.request_id
    if request.HasField("max_output_units"):
        item.max_output_units = request.max_output_units
    if request.HasField("sampling"):
        item.sampling.CopyFrom(request.sampling)
