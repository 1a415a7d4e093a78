"""What a worker asks of a model runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headway.errors import HeadwayError, RuntimeFailure, RuntimeInputError
from headway.v1 import types_pb2


@dataclass(frozen=True, slots=True)
class ItemOutput:
    """The answer to one member.

    Attributes:
      output: what the model returned; the first extent of its tensors is `rows`.
      units: work units of the input, as the runtime counted them.
      rows: rows of the input.
      truncated_rows: those of which only the beginning was read, being too long.
    """

    output: types_pb2.Output
    units: int
    rows: int
    truncated_rows: int = 0


# How one member ended: answered, refused as an input the model does not take, or failed.
Outcome = ItemOutput | RuntimeInputError | RuntimeFailure


class Tampering(Enum):
    """How a drill falsifies a batch's result on the wire, to test that gateways notice."""

    MISSING_MEMBER = "missing_member"
    EXTRA_MEMBER = "extra_member"


@dataclass(frozen=True, slots=True)
class Execution:
    """How a batch ran.

    Attributes:
      outcomes: one for each member, in order.
      device_ns: time the device worked, > 0; 0 where the runtime cannot tell.
      tampering: set by the simulated runtime's drills only.
    """

    outcomes: Sequence[Outcome]
    device_ns: int
    tampering: Tampering | None = None


class RuntimeOccupied(HeadwayError):
    """The runtime cannot begin a batch now. Backpressure, not a failure.

    Attributes:
      retry_after_ns: when it expects to, from now; 0 if unknown.
    """

    def __init__(self, message: str, *, retry_after_ns: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ns = retry_after_ns


class Runtime(Protocol):
    """One model version on one device. Called by one event loop, one batch at a time."""

    async def load(self) -> None:
        """Makes it ready to run. Called once, before all else.

        Raises:
          StartupError: what is missing, and what to do.
        """
        ...

    def card(self) -> types_pb2.ModelCard:
        """What there is to know of it; model and version are left empty. After `load`."""
        ...

    def count_units(self, item: types_pb2.Input) -> int:
        """Work units of an input, >= 1.

        Raises:
          RuntimeInputError: not an input that it takes.
        """
        ...

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        """Executes a batch.

        Cancelling it stops the work where the runtime can; it returns (or raises
        CancelledError) only once the device is free again.

        Raises:
          RuntimeFailure: the batch failed as a whole.
          RuntimeOccupied: it was not begun.
        """
        ...

    async def close(self) -> None:
        """Frees what it holds."""
        ...
