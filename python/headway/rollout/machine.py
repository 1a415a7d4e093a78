"""The states of a rollout, and what operators may do in each. Pure: record in, record out.

    running <-> paused            pause, resume; the tests go on in both
    running, paused -> promoted   by evidence, or by an operator
    running, paused -> rolled_back
    running, paused -> aborted    by an operator; wins over whatever is being decided

An ended rollout changes no more.
"""

import dataclasses
from typing import Final

from headway.errors import FailedPrecondition
from headway.store.records import RolloutRecord

RUNNING: Final = "running"
PAUSED: Final = "paused"
PROMOTED: Final = "promoted"
ROLLED_BACK: Final = "rolled_back"
ABORTED: Final = "aborted"
ACTIVE: Final = frozenset({RUNNING, PAUSED})

SHADOW_STEP: Final = -1
"""Index of the step in which requests are only copied to the canary."""

_REASON_LENGTH: Final = 1000


def is_active(record: RolloutRecord) -> bool:
    """True until it has ended."""
    return record.phase in ACTIVE


def pause(record: RolloutRecord) -> RolloutRecord:
    """Holds it at its step. Repeating it changes nothing.

    Raises:
      FailedPrecondition: it has ended.
    """
    _check_active(record, "pause")
    return _in_phase(record, PAUSED, "paused by an operator")


def resume(record: RolloutRecord) -> RolloutRecord:
    """Goes on. Repeating it changes nothing.

    Raises:
      FailedPrecondition: it has ended.
    """
    _check_active(record, "resume")
    return _in_phase(record, RUNNING, "resumed by an operator")


def promote(record: RolloutRecord, at_ns: int) -> RolloutRecord:
    """Ends it with all traffic on the canary.

    Raises:
      FailedPrecondition: it has ended, and not by a promotion.
    """
    if record.phase == PROMOTED:
        return record
    _check_active(record, "promote")
    return ended(record, PROMOTED, "promoted by an operator", at_ns)


def abort(record: RolloutRecord, reason: str, at_ns: int) -> RolloutRecord:
    """Ends it with all traffic on the baseline. Aborting what went back already changes nothing.

    Raises:
      FailedPrecondition: the canary was promoted.
    """
    if record.phase in (ABORTED, ROLLED_BACK):
        return record
    _check_active(record, "abort")
    why = f"aborted by an operator: {reason}" if reason else "aborted by an operator"
    return ended(record, ABORTED, why, at_ns)


def ended(record: RolloutRecord, phase: str, reason: str, at_ns: int) -> RolloutRecord:
    """The record of an ended rollout; the canary's share is all or nothing."""
    return dataclasses.replace(
        record,
        phase=phase,
        canary_share=1.0 if phase == PROMOTED else 0.0,
        ended_at_ns=at_ns,
        reason=reason[:_REASON_LENGTH],
    )


def at_step(record: RolloutRecord, step: int, share: float, reason: str) -> RolloutRecord:
    """The record at another step."""
    why = reason[:_REASON_LENGTH]
    return dataclasses.replace(record, step=step, canary_share=share, reason=why)


def shares(record: RolloutRecord) -> tuple[tuple[str, float], ...]:
    """The split of a rollout: the baseline first, which also takes what the canary cannot.

    The canary has the end of the interval, so that a share that grows moves no key back. Versions
    beside the two get nothing, whatever became of them before.
    """
    share = record.canary_share
    return ((record.baseline_version, 1.0 - share), (record.canary_version, share))


def _in_phase(record: RolloutRecord, phase: str, reason: str) -> RolloutRecord:
    if record.phase == phase:
        return record
    return dataclasses.replace(record, phase=phase, reason=reason)


def _check_active(record: RolloutRecord, action: str) -> None:
    if not is_active(record):
        raise FailedPrecondition(
            f"rollout {record.rollout_id} is {record.phase.replace('_', ' ')} and cannot be "
            f"{_DONE[action]}; start another one",
            field="rollout_id",
            metadata={"phase": record.phase, "type": "ROLLOUT_ENDED"},
        )


_DONE: Final = {
    "pause": "paused",
    "resume": "resumed",
    "promote": "promoted",
    "abort": "aborted",
}
