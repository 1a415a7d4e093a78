"""The engine: takes requests into lanes, keeps two frames in flight, and hands out their output.

It never waits: the executor calls back, and each call ends with the queue as full as it may be.
All of it runs on one event loop (or in one simulation); only the passes run elsewhere.
"""

import logging
from collections import deque
from collections.abc import Callable

from headway._core import StepPause
from headway.engine.drafts import Acceptance
from headway.engine.executor import Executor, ExecutorLimits, LaneOpening
from headway.engine.flight import Flight, frame_of, record_of
from headway.engine.frame import Completion
from headway.engine.lane import EngineLane
from headway.engine.length import OutputLengths
from headway.engine.memory import SlotMemory
from headway.engine.request import Finish, GenerationRequest, OutputListener
from headway.engine.selection import StepSelector
from headway.engine.timeline import Timeline
from headway.engine.trace import Trace
from headway.engine.wait import FirstTokenWait
from headway.errors import RuntimeInputError

_log = logging.getLogger(__name__)
_CENSORED = frozenset({Finish.LENGTH, Finish.CANCELLED, Finish.EXPIRED})


class Engine:
    """One model on one device."""

    def __init__(
        self,
        executor: Executor,
        selector: StepSelector,
        timeline: Timeline,
        *,
        trace: Trace | None = None,
        reuse: bool = True,
    ) -> None:
        """Makes an engine without lanes.

        Args:
          executor: the device.
          selector: chooses among the executor's catalogue.
          timeline: where the present comes from, and later calls go.
          trace: where steps are recorded; nowhere by default.
          reuse: whether ended lanes leave their memory to prompts that begin alike.
        """
        # Called when a lane was freed; set by who gives out lanes.
        self.on_freed: Callable[[], None] = lambda: None
        self.lengths = OutputLengths()
        self.first_token_wait = FirstTokenWait()
        self._executor = executor
        self._selector = selector
        self._clock = timeline
        self._trace = trace
        self._reuse = reuse
        limits = executor.limits
        self._memory = SlotMemory(limits.num_slots, limits.kv_tokens)
        self._num_drafts = max(graph.width for graph in executor.catalogue) - 1
        self._acceptance = Acceptance(self._num_drafts)
        self._lanes: dict[int, EngineLane] = {}
        self._by_slot: dict[int, EngineLane] = {}
        self._flights: deque[Flight] = deque()
        self._num_steps = 0
        for index, device_ns in enumerate(executor.measured_ns):
            if device_ns:
                selector.observe(
                    index,
                    device_ns=device_ns,
                    wall_ns=device_ns,
                    completed_at_ns=timeline.now_ns(),
                    probe=True,
                )
        self._last_completed_at = timeline.now_ns()
        self._wake_at = 0

    # -- requests

    def check(self, prompt_tokens: int, output_limit: int) -> int:
        """The output limit that the context leaves room for, >= 1.

        Raises:
          RuntimeInputError: the prompt is empty, or leaves room for no output.
        """
        limits = self._executor.limits
        longest = min(limits.context, limits.kv_tokens)
        if not 0 < prompt_tokens < longest:
            raise RuntimeInputError(
                f"the prompt has {prompt_tokens} tokens; the model takes 1 to {longest - 1}, "
                "prompt and output together one more"
            )
        return max(1, min(output_limit, longest - prompt_tokens))

    def admit(self, request: GenerationRequest, listener: OutputListener) -> EngineLane | None:
        """Gives a request a lane; None if there is no room for it now.

        Raises:
          RuntimeInputError: as `check`, or a stop string that is none.
        """
        now_ns = self._clock.now_ns()
        prompt = request.prompt
        num_tokens = len(prompt) + self.check(len(prompt), request.output_limit)
        acceptance = Acceptance(self._num_drafts, self._acceptance)
        lane = EngineLane(
            request, listener, self._executor.vocabulary, acceptance,
            handle=-1, slot=-1, reused=0, now_ns=now_ns,
        )  # fmt: skip
        placement = self._memory.place(prompt if self._reuse else (), num_tokens)
        if placement is None:
            return None
        opening = LaneOpening(
            placement.slot, num_tokens, prompt, placement.source, placement.reused,
            request.output_limit, request.sampling,
        )  # fmt: skip
        self._executor.open(opening)
        for slot in self._memory.evicted():
            self._executor.release(slot)
        lane.slot = placement.slot
        lane.reused = lane.prompt_done = lane.prompt_submitted = placement.reused
        lane.handle = self._tell_selector(lane, now_ns)
        self._lanes[lane.handle] = self._by_slot[lane.slot] = lane
        self.pump()
        return lane

    def cancel(self, lane: EngineLane) -> None:
        """Takes a request back; it is in no step from the next one on."""
        if lane.ending is None:
            lane.cancel()
            self._leave(lane)
            self.pump()

    def hold(self, lane: EngineLane, held: bool) -> None:
        """Leaves a lane out of steps while its reader is behind; the others go on."""
        if lane.ending is None:
            self._selector.hold(lane.handle, held)
            self.pump()

    # -- reads

    @property
    def limits(self) -> ExecutorLimits:
        """What the device has room for."""
        return self._executor.limits

    @property
    def free_lanes(self) -> int:
        """Lanes that could begin now."""
        return self._memory.free_slots

    @property
    def free_tokens(self) -> int:
        """Memory that lanes could have now."""
        return self._memory.free_tokens

    @property
    def num_lanes(self) -> int:
        """Requests whose output has not ended."""
        return sum(lane.ending is None for lane in self._lanes.values())

    def predicted_first_token_ns(self) -> int:
        """Wait to the first token of a usual prompt that would be admitted now.

        Shorter prompts go first, so of a longer one no more than the usual length is ahead of it.
        """
        usual = self.first_token_wait.usual_prompt
        left = (lane.prompt_left for lane in self._lanes.values() if lane.ending is None)
        ahead = sum(min(tokens, usual) for tokens in left)
        return self.first_token_wait.predict_ns(ahead)

    # -- steps

    def pump(self) -> None:
        """Fills the submission queue. Repeating it changes nothing."""
        now_ns = self._clock.now_ns()
        self._expire(now_ns)
        while self._may_submit(now_ns):
            step = self._selector.dispatch(now_ns)
            if isinstance(step, StepPause):
                return
            frame = frame_of(step, self._lanes, self._executor.catalogue[step.graph].width)
            flight = Flight(
                step=step,
                frame=frame,
                lanes=[self._by_slot[slot] for slot in frame.slots],
                submitted_at=now_ns,
                drained=not self._flights,
                num_lanes=self.num_lanes,
            )
            for lane in flight.lanes:
                lane.num_frames += 1
            self._flights.append(flight)
            self._executor.submit(frame, self._on_completion)

    def _may_submit(self, now_ns: int) -> bool:
        """Whether another frame is due.

        The second one is chosen late: who comes meanwhile waits for one frame, not for two. The
        device has no gap as long as the lead holds.
        """
        if not self._flights:
            return True
        due_at = self._flights[0].due_at(self._last_completed_at)
        if len(self._flights) > 1 or now_ns >= due_at:
            return True
        if not now_ns < self._wake_at <= due_at:
            self._wake_at = due_at
            self._clock.call_at(due_at, self.pump)
        return False

    def _tell_selector(self, lane: EngineLane, now_ns: int) -> int:
        request, targets = lane.request, lane.request.targets
        return self._selector.admit(
            now_ns,
            prompt_tokens=len(request.prompt),
            prompt_left=lane.prompt_left,
            output_limit=request.output_limit,
            arrived_at_ns=request.arrived_at_ns or now_ns,
            weight=request.weight,
            acceptance=lane.acceptance.chances(),
            first_token_deadline_ns=targets.first_token_at_ns,
            completion_deadline_ns=targets.priced_completion_ns,
            gap_target_ns=targets.gap_ns,
            expected_tokens=self.lengths.expected(budget=request.output_limit),
        )

    def _on_completion(self, completion: Completion) -> None:
        now_ns = self._clock.now_ns()
        flight = self._flights.popleft()
        problem = completion.error or flight.problem_with(completion)
        if problem:
            _log.error("frame %d: %s", completion.frame_id, problem)
        for lane in flight.lanes:
            lane.num_frames -= 1
            lane.device_ns += completion.device_ns
        if problem:
            shares = self._fail(flight, problem)
        else:
            shares = self._publish(flight, completion, now_ns)
        self._selector.complete(
            flight.frame.frame_id,
            now_ns,
            device_ns=self._executor.full_ns(flight.frame, completion) or None,
            lanes=[lane.handle for lane in flight.lanes],
            tokens=shares,
            ended=[lane.ending is not None for lane in flight.lanes],
        )
        self._record(flight, completion, now_ns)
        self._last_completed_at = now_ns
        for lane in flight.lanes:
            self._settle(lane)
        self.pump()

    def _publish(self, flight: Flight, completion: Completion, now_ns: int) -> list[int]:
        """Hands out what a frame yielded; tokens by lane, as the selector counts them."""
        ends = self._executor.vocabulary.ends
        by_slot = {outcome.slot: outcome for outcome in completion.outcomes}
        for row in flight.frame.prefill:
            lane = self._by_slot[row.slot]
            prompt = lane.request.prompt
            self._memory.extend(
                lane.slot, prompt[lane.prompt_done : lane.prompt_done + row.num_tokens]
            )
            lane.prompt_done += row.num_tokens
        for lane in flight.lanes:
            outcome = by_slot[lane.slot]
            was_first = lane.first_token_at is None
            lane.take(outcome, ends, now_ns)
            if was_first and lane.first_token_at is not None:
                self.first_token_wait.observe(
                    len(lane.request.prompt) - lane.reused, now_ns - lane.admitted_at
                )
        for verified in flight.frame.decode:
            lane = self._by_slot[verified.slot]
            if verified.width > 1 and by_slot[verified.slot].tokens:
                lane.acceptance.observe(verified.width - 1, by_slot[verified.slot].num_accepted)
                if lane.ending is None:
                    self._selector.set_acceptance(lane.handle, lane.acceptance.chances())
        return [len(by_slot[lane.slot].tokens) for lane in flight.lanes]

    def _fail(self, flight: Flight, problem: str) -> list[int]:
        # What the device holds of these lanes is unknown now, so they cannot go on.
        for lane in flight.lanes:
            lane.end(Finish.FAILED, problem)
        return [0] * len(flight.lanes)

    def _expire(self, now_ns: int) -> None:
        for lane in list(self._lanes.values()):
            due = lane.request.targets.completion_at_ns
            if lane.ending is None and due is not None and due <= now_ns:
                lane.end(Finish.EXPIRED)
                self._leave(lane)

    def _leave(self, lane: EngineLane) -> None:
        self._selector.cancel(lane.handle)
        self._settle(lane)

    def _settle(self, lane: EngineLane) -> None:
        """Frees the slot of a lane that ended, once no frame in flight has it."""
        ending = lane.ending
        if ending is None or lane.num_frames or lane.handle not in self._lanes:
            return
        del self._lanes[lane.handle], self._by_slot[lane.slot]
        self.lengths.observe(lane.output_tokens, censored=ending.finish in _CENSORED)
        keep = self._reuse and ending.finish is not Finish.FAILED
        self._memory.vacate(lane.slot, keep=keep)
        if not keep:
            self._executor.release(lane.slot)
        self.on_freed()

    def _record(self, flight: Flight, completion: Completion, now_ns: int) -> None:
        self._num_steps += 1
        if self._trace is not None:
            graph = self._executor.catalogue[flight.step.graph]
            begun_at = max(flight.submitted_at, self._last_completed_at)
            self._trace.add(record_of(self._num_steps, graph, flight, completion, now_ns, begun_at))
