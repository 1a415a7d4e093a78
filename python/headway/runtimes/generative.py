"""What a worker asks of a runtime that writes token by token."""

from dataclasses import dataclass
from typing import Protocol

from headway.engine.executor import Executor
from headway.v1 import types_pb2


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """What holds for requests that do not say otherwise.

    Attributes:
      output_tokens: output budget, >= 1.
      first_token_ns: wanted wait to the first token; None where it does not matter.
      gap_ns: longest wanted time between deliveries; None where it does not matter.
    """

    output_tokens: int
    first_token_ns: int | None = None
    gap_ns: int | None = None


class GenerativeRuntime(Protocol):
    """One generative model version on one device."""

    @property
    def defaults(self) -> GenerationDefaults:
        """Of its requests."""
        ...

    async def load(self) -> Executor:
        """Makes it ready and gives the device that the engine drives. Called once.

        Raises:
          StartupError: what is missing, and what to do.
        """
        ...

    def card(self) -> types_pb2.ModelCard:
        """What there is to know of it; model and version are left empty. After `load`."""
        ...

    async def close(self) -> None:
        """Frees what it holds."""
        ...


def text_card(runtime: str, context: int, *, bytes_per_token: float) -> types_pb2.ModelCard:
    """The card of a model that takes a text or token ids and writes text."""
    return types_pb2.ModelCard(
        runtime=runtime,
        input_kinds=[types_pb2.INPUT_KIND_TEXT, types_pb2.INPUT_KIND_TOKEN_IDS],
        unit_estimate=types_pb2.UnitEstimate(
            units_per_byte=1 / bytes_per_token,
            units_per_element=1,
            max_units_per_row=context,
            refuse_longer=True,
        ),
        batch_limits=types_pb2.BatchLimits(max_requests=1, max_rows=1),
        generative=True,
        accelerator="cpu",
    )
