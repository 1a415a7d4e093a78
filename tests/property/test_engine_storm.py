"""The step scheduler under random arrivals, cancellations, failures and missing times."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from headway import _core

MS = 1_000_000
SHARE = 0.1
GRAPHS = (
    _core.StepGraph(name="d2", decode_rows=2),
    _core.StepGraph(name="d4w3", decode_rows=4, width=3),
    _core.StepGraph(name="p64", prefill_tokens=64, prompt_rows=2),
    _core.StepGraph(name="m32d2", prefill_tokens=32, decode_rows=2, width=2),
    _core.StepGraph(name="wait", prefill_tokens=256, prompt_rows=4, feedback=True),
)

admissions = st.fixed_dictionaries(
    {
        "prompt_tokens": st.sampled_from([0, 1, 40, 64, 300]),
        "output_limit": st.integers(1, 9),
        "weight": st.sampled_from([0.1, 1.0, 5.0]),
        "acceptance": st.lists(st.floats(0, 1), max_size=3),
        "gap_target_ns": st.sampled_from([None, 5 * MS, 500 * MS]),
        "first_token_deadline_ns": st.sampled_from([None, 0, 900 * MS, 10**12]),
        "completion_deadline_ns": st.sampled_from([None, 2_000 * MS]),
        "expected_tokens": st.sampled_from([None, 0.0, 4.5]),
        "feedback": st.booleans(),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), admissions),
        st.tuples(st.just("cancel"), st.integers(0, 40)),
        st.tuples(st.just("dispatch"), st.none()),
        st.tuples(st.just("complete"), st.tuples(st.integers(0, 3), st.integers(0, 90))),
        st.tuples(st.just("pass"), st.integers(0, 40_000)),
    ),
    max_size=80,
)


class Storm:
    """Drives a scheduler as an engine would, and keeps the plain facts beside it."""

    def __init__(self) -> None:
        self.core = _core.StepScheduler(
            GRAPHS, probe_share=SHARE, lifetime_ns=50 * MS, credit_cap_ns=MS, max_lanes=12
        )
        self.now_ns = 0
        self.lanes: dict[int, tuple[int, int]] = {}  # prompt left, output left
        self.frames: list[_core.Step] = []
        self.leaving: set[int] = set()

    def admit(self, fields: dict[str, object]) -> None:
        if len(self.lanes) + len(self.leaving) >= 12:
            return
        lane = self.core.admit(self.now_ns, **fields)  # type: ignore[arg-type]
        self.lanes[lane] = (int(str(fields["prompt_tokens"])), int(str(fields["output_limit"])))

    def cancel(self, lane: int) -> None:
        if lane in self.lanes:
            self.core.cancel(lane)
            del self.lanes[lane]
            self.leaving.add(lane)
            self.forget()

    def dispatch(self) -> None:
        before = copy.copy(self.core).select(self.now_ns)
        step = self.core.dispatch(self.now_ns)
        assert isinstance(step, _core.Step) == isinstance(before, _core.Step)
        if isinstance(step, _core.StepPause):
            assert step != _core.StepPause.NO_GRAPH
            assert (step == _core.StepPause.QUEUE_FULL) == (len(self.frames) == 2)
            return
        assert isinstance(before, _core.Step)
        assert (step.graph, step.row_lanes, step.parts) == (
            before.graph,
            before.row_lanes,
            before.parts,
        )
        graph = GRAPHS[step.graph]
        served = [*step.prompt_lanes, *step.row_lanes]
        assert served and len(set(served)) == len(served)
        assert set(served) <= set(self.lanes)
        assert 0 <= sum(step.prompt_tokens) <= graph.prefill_tokens
        assert all(tokens >= 1 for tokens in step.prompt_tokens)
        assert len(step.row_lanes) <= graph.decode_rows
        assert len(step.prompt_lanes) <= graph.prompt_rows
        if step.cost_ns:
            assert abs(sum(step.parts) - step.score * step.cost_ns * 1e-9) < 1e-6 * (
                1 + sum(map(abs, step.parts))
            )
        self.frames.append(step)

    def complete(self, tokens: int, device_ms: int) -> None:
        if not self.frames:
            return
        step = self.frames.pop(0)
        self.now_ns += max(device_ms, 1) * MS
        width = GRAPHS[step.graph].width
        published = {}
        for lane, work in zip(step.prompt_lanes, step.prompt_tokens, strict=True):
            if lane in self.lanes:
                left, output = self.lanes[lane]
                self.lanes[lane] = (left - work, output - (left == work))
                published[lane] = int(left == work)
        for lane in step.row_lanes:
            if lane in self.lanes:
                left, output = self.lanes[lane]
                published[lane] = min(tokens, width, output)
                self.lanes[lane] = (left, output - published[lane])
        self.core.complete(
            step.frame,
            self.now_ns,
            device_ns=device_ms * MS or None,
            lanes=list(published),
            tokens=list(published.values()),
            ended=[False] * len(published),
        )
        for lane in [lane for lane, (_, output) in self.lanes.items() if output <= 0]:
            del self.lanes[lane]
            self.leaving.add(lane)
        self.forget()

    def forget(self) -> None:
        busy = {lane for s in self.frames for lane in [*s.prompt_lanes, *s.row_lanes]}
        self.leaving &= busy

    def check(self) -> None:
        assert self.core.num_lanes == len(self.lanes) + len(self.leaving)
        assert self.core.num_frames == len(self.frames) <= 2
        _, ordinary, probes, last = self.core.allowance_ns()
        assert probes * (1 - SHARE) <= SHARE * ordinary + last * (1 - SHARE) + 1


@settings(max_examples=150, deadline=None)
@given(steps=steps)
def test_a_storm_leaves_nothing_behind(steps: list[tuple[str, object]]) -> None:
    storm = Storm()
    for action, argument in steps:
        if action == "admit":
            assert isinstance(argument, dict)
            storm.admit(argument)
        elif action == "cancel":
            storm.cancel(int(str(argument)))
        elif action == "dispatch":
            storm.dispatch()
        elif action == "complete":
            assert isinstance(argument, tuple)
            storm.complete(*argument)
        else:
            storm.now_ns += int(str(argument)) * MS
        storm.check()
    for _ in range(1_000):
        if not storm.lanes and not storm.frames:
            break
        storm.dispatch()
        storm.complete(1, 7)
        storm.check()
    assert storm.core.num_lanes == 0
    assert storm.core.num_frames == 0
    assert storm.core.dispatch(storm.now_ns) == _core.StepPause.IDLE
