"""What a model's graphs cost, measured before it serves.

A pass that takes any mixture costs a fixed part, a part by prompt token and a part by decoded
position. A few passes tell the three; graph by graph, dozens would be needed, and each of them
would be somebody's request.
"""

from collections.abc import Sequence

from headway.clock import Clock
from headway.engine.stepper import ModelRow, TokenModel
from headway.engine.threaded import PassCosts

SHORT, LONG = 16, 128
TOKEN = 1


def measure(model: TokenModel, clock: Clock, *, num_slots: int) -> PassCosts:
    """Costs of a model's passes. Leaves no lane behind."""
    for slot in range(num_slots):
        model.reserve(slot, LONG + 2, -1, 0)

    def timed(rows: Sequence[ModelRow]) -> int:
        for row in rows:
            model.truncate(row.slot, row.start)
        begun_at = clock.now_ns()
        model.forward(rows)
        return clock.now_ns() - begun_at

    timed([_chunk(SHORT)])  # the first pass pays for caches
    short, long = timed([_chunk(SHORT)]), timed([_chunk(LONG)])
    for slot in range(num_slots):
        model.truncate(slot, 0)
        model.forward([ModelRow(slot, 0, [TOKEN] * 2, num_logits=1)])
    one = timed([_row(0)])
    all_rows = timed([_row(slot) for slot in range(num_slots)])
    for slot in range(num_slots):
        model.release(slot)
    token = max(0.0, (long - short) / (LONG - SHORT))
    position = max(0.0, (all_rows - one) / (num_slots - 1)) if num_slots > 1 else 0.0
    return PassCosts(max(0.0, short - SHORT * token), max(0.0, one - position), token, position)


def _chunk(length: int) -> ModelRow:
    return ModelRow(0, 0, [TOKEN] * length, num_logits=1)


def _row(slot: int) -> ModelRow:
    return ModelRow(slot, 2, [TOKEN], num_logits=1)
