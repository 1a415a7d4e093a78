"""Runs drills one after the other and says how each went."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.clock import Clock
from headway.drill.catalog import Drill
from headway.drill.stage import DrillFailed, Say, Stage, all_of, open_stage
from headway.errors import HeadwayError
from headway.rng import SeedTree


@dataclass(frozen=True, slots=True)
class DrillResult:
    """How a drill went.

    Attributes:
      reason: what did not hold; "" if it passed.
      figures: what was measured.
    """

    drill: str
    transport: str
    passed: bool
    seconds: float
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


async def run_drill(
    drill: Drill,
    *,
    transport: str,
    folder: Path,
    clock: Clock,
    seed: int,
    size: float = 1.0,
    say: Say = lambda text: None,
) -> DrillResult:
    """Runs a drill on a fleet of its own, and checks what must hold after every one.

    Args:
      transport: server of the gateways' data port.
      folder: for logs and addresses.
      size: 1 for its full length.
      say: hears what it is about.
    """
    began_ns = clock.now_ns()
    reason, figures = "", {}
    async with open_stage(folder, clock, transport, SeedTree(seed), say, size) as stage:
        try:
            await _run(drill, stage)
        except (DrillFailed, HeadwayError) as error:
            reason = f"{error}; the logs are in {folder}"
        counted = all_of(stage.calls).figures() if stage.calls else {}
        figures = {**counted, **stage.figures}
    seconds = round((clock.now_ns() - began_ns) / 1e9, 1)
    return DrillResult(drill.name, transport, not reason, seconds, reason, figures)


async def _run(drill: Drill, stage: Stage) -> None:
    await drill.run(stage)
    for each in stage.calls:
        await each.stop()
    stage.check_calls()
    await stage.check_settled()
    stage.check_memory()
