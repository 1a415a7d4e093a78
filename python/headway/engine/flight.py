"""A frame between its submission and its completion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.engine.frame import Completion, DecodeRow, Frame, GraphShape, PrefillRow
from headway.engine.lane import EngineLane
from headway.engine.selection import PART_NAMES, Step
from headway.engine.trace import LaneShare, StepRecord

LEAD = 0.3
SHORTEST_LEAD_NS = 5_000_000
"""Before a frame's predicted end: several times the spread of step times, and of timers."""

REASONS = ("", "best score", "lone prompt", "passed over", "bootstrap", "refresh")


@dataclass(frozen=True, slots=True)
class Flight:
    """What was submitted, for whom.

    Attributes:
      lanes: in the order of the frame's slots.
      drained: True if nothing else was in flight.
      num_lanes: lanes that there were.
    """

    step: Step
    frame: Frame
    lanes: Sequence[EngineLane]
    submitted_at: int
    drained: bool
    num_lanes: int

    def due_at(self, last_completed_at: int) -> int:
        """When the next frame is to be submitted, if this one is the oldest.

        A lead before its predicted end; at once while its cost is unknown, since there is no
        end to predict.
        """
        cost_ns = self.step.cost_ns
        begun_at = max(self.submitted_at, last_completed_at)
        return begun_at + max(0, cost_ns - max(SHORTEST_LEAD_NS, round(LEAD * cost_ns)))

    def problem_with(self, completion: Completion) -> str:
        """What is wrong with a completion; "" if it is one of this frame.

        A device that answers for the wrong rows, or with more than they had room for, has lost
        track of its lanes: nobody may get somebody else's text.
        """
        if completion.frame_id != self.frame.frame_id:
            return f"frame {completion.frame_id} ended while {self.frame.frame_id} was the oldest"
        if sorted(each.slot for each in completion.outcomes) != sorted(self.frame.slots):
            return "the device answered for other lanes than it was given"
        most = {row.slot: int(row.completes) for row in self.frame.prefill}
        most |= {row.slot: row.width for row in self.frame.decode}
        for each in completion.outcomes:
            if len(each.tokens) > most[each.slot]:
                room = most[each.slot]
                return f"slot {each.slot} got {len(each.tokens)} tokens, with room for {room}"
        first = {each.slot: each for each in completion.outcomes}
        if any(row.completes and not first[row.slot].tokens for row in self.frame.prefill):
            return "a prompt was completed without a first token"
        return ""


def frame_of(step: Step, lanes: Mapping[int, EngineLane], width: int) -> Frame:
    """The frame of a step; notes on the lanes what of their prompts is under way."""
    prefill = []
    for handle, num_tokens in zip(step.prompt_lanes, step.prompt_tokens, strict=True):
        lane = lanes[handle]
        lane.prompt_submitted += num_tokens
        completes = lane.prompt_submitted == len(lane.request.prompt)
        prefill.append(PrefillRow(lane.slot, num_tokens, completes))
    decode = tuple(DecodeRow(lanes[handle].slot, width) for handle in step.row_lanes)
    return Frame(step.frame, step.graph, tuple(prefill), decode)


def record_of(
    number: int,
    graph: GraphShape,
    flight: Flight,
    completion: Completion,
    now_ns: int,
    begun_at: int,
) -> StepRecord:
    """The trace's record of a completed step. `begun_at`: when the device could begin it."""
    step = flight.step
    prompts = {row.slot: row.num_tokens for row in flight.frame.prefill}
    outcomes = {outcome.slot: outcome for outcome in completion.outcomes}
    shares = []
    for lane in flight.lanes:
        outcome = outcomes.get(lane.slot)
        shares.append(
            LaneShare(
                lane.request.request_id,
                prompts.get(lane.slot, 0),
                len(outcome.tokens) if outcome else 0,
                outcome.num_drafted if outcome else 0,
                outcome.num_accepted if outcome else 0,
            )
        )
    return StepRecord(
        step=number,
        graph=graph.name,
        reason=REASONS[int(step.reason)],
        submitted_at_ns=flight.submitted_at,
        completed_at_ns=now_ns,
        predicted_ns=step.cost_ns,
        device_ns=completion.device_ns,
        wall_ns=now_ns - begun_at,
        handoff_ns=max(0, now_ns - begun_at - completion.device_ns),
        drained=flight.drained,
        num_lanes=flight.num_lanes,
        lanes=shares,
        score=step.score,
        parts=dict(zip(PART_NAMES, step.parts, strict=True)),
    )
