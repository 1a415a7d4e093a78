"""What operators may do in which state."""

import dataclasses

import pytest

from headway.errors import FailedPrecondition
from headway.rollout import machine
from headway.store.records import RolloutRecord

RUNNING = RolloutRecord("r1", "m", "v1", "v2", "running", 2, 0.25, {}, 100)
PHASES = {
    phase: dataclasses.replace(RUNNING, phase=phase)
    for phase in ("running", "paused", "promoted", "rolled_back", "aborted")
}
ACTIONS = {
    "pause": machine.pause,
    "resume": machine.resume,
    "promote": lambda record: machine.promote(record, 200),
    "abort": lambda record: machine.abort(record, "", 200),
}


@pytest.mark.parametrize(
    ("phase", "action", "then"),
    [
        ("running", "pause", "paused"),
        ("running", "resume", "running"),
        ("running", "promote", "promoted"),
        ("running", "abort", "aborted"),
        ("paused", "pause", "paused"),
        ("paused", "resume", "running"),
        ("paused", "promote", "promoted"),
        ("paused", "abort", "aborted"),
        ("promoted", "pause", None),
        ("promoted", "resume", None),
        ("promoted", "promote", "promoted"),
        ("promoted", "abort", None),
        ("rolled_back", "pause", None),
        ("rolled_back", "resume", None),
        ("rolled_back", "promote", None),
        ("rolled_back", "abort", "rolled_back"),
        ("aborted", "pause", None),
        ("aborted", "resume", None),
        ("aborted", "promote", None),
        ("aborted", "abort", "aborted"),
    ],
)
def test_an_action_in_a_phase(phase: str, action: str, then: str | None) -> None:
    if then is None:
        with pytest.raises(FailedPrecondition, match=f"is {phase.replace('_', ' ')} and cannot"):
            ACTIONS[action](PHASES[phase])
        return
    assert ACTIONS[action](PHASES[phase]).phase == then


def test_the_split_is_the_canarys_share_at_the_end_of_the_interval() -> None:
    assert machine.shares(RUNNING) == (("v1", 0.75), ("v2", 0.25))
    assert machine.shares(machine.promote(RUNNING, 1)) == (("v1", 0.0), ("v2", 1.0))
    assert machine.shares(machine.abort(RUNNING, "x", 1)) == (("v1", 1.0), ("v2", 0.0))


def test_an_end_is_written_down() -> None:
    aborted = machine.abort(RUNNING, "wrong weights", 200)
    assert (aborted.ended_at_ns, aborted.reason) == (200, "aborted by an operator: wrong weights")
    assert (aborted.step, aborted.canary_share) == (2, 0.0)
