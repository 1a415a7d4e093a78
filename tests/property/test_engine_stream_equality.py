"""Whatever the schedule, an output is the one that the model writes alone.

The rule: the engine's greedy output equals the runtime's own single-sequence output token for
token, up to the first position at which the two likeliest logits lie within `TOLERANCE` of each
other; float32 sums in another order may decide those either way.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.inline_executor import InlineExecutor
from tests.support.reader import Reader
from tests.support.tiny_decoder import ENDS, GRAPHS, TinyVocabulary, tiny_transformer

from headway.engine.engine import Engine
from headway.engine.executor import ExecutorLimits
from headway.engine.request import GenerationRequest
from headway.engine.sampling import Sampling
from headway.engine.scheduling import make_selector
from headway.engine.stepper import Stepper
from headway.engine.timeline import VirtualTimeline
from headway.runtimes.decoder.reference import greedy

TOLERANCE = 1e-3
MS = 1_000_000

prompts = st.one_of(
    st.lists(st.integers(1, 47), min_size=1, max_size=40),
    # Repetitive ones, whose drafts are often right; and ones with a beginning in common.
    st.builds(lambda part, n: part * n, st.lists(st.integers(1, 47), min_size=2, max_size=5),
              st.integers(2, 8)),
    st.builds(lambda rest: [*range(1, 21), *rest],
              st.lists(st.integers(1, 47), min_size=1, max_size=8)),
)  # fmt: skip
requests = st.tuples(prompts, st.integers(1, 24), st.integers(0, 60))
schedules = st.lists(
    st.tuples(requests, st.one_of(st.none(), st.integers(0, 80))), min_size=1, max_size=7
)


def run(schedule: list, durations: list[int], sampling: Sampling) -> list[tuple[list, Reader]]:
    """Admits each request at its instant (or once there is room); cancels some."""
    timeline = VirtualTimeline()
    executor = InlineExecutor(
        Stepper(tiny_transformer(), ENDS),
        TinyVocabulary(),
        timeline,
        catalogue=GRAPHS,
        limits=ExecutorLimits(num_slots=4, kv_tokens=300, context=128),
        duration_ns=lambda frame: durations[frame.frame_id % len(durations)] * MS,
    )
    engine = Engine(executor, make_selector(GRAPHS, max_lanes=16), timeline)
    readers: list[tuple[list, Reader]] = []

    def begin(prompt: list[int], limit: int, cancel_after: int | None) -> None:
        reader = Reader()
        lane = engine.admit(
            GenerationRequest(tuple(prompt), limit, sampling, request_id="r"), reader
        )
        if lane is None:
            later = timeline.now_ns() + 3 * MS
            timeline.call_at(later, lambda: begin(prompt, limit, cancel_after))
            return
        if cancel_after is None:
            readers.append((prompt, reader))
        else:
            timeline.call_at(timeline.now_ns() + cancel_after * MS, lambda: engine.cancel(lane))

    for (prompt, limit, at_ms), cancel_after in schedule:
        timeline.call_at(at_ms * MS, lambda p=prompt, n=limit, c=cancel_after: begin(p, n, c))
    timeline.run()
    assert engine.num_lanes == 0
    assert engine.free_lanes == 4
    return readers


@settings(max_examples=150, deadline=None)
@given(schedule=schedules, durations=st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_greedy_output_does_not_depend_on_the_schedule(
    schedule: list, durations: list[int]
) -> None:
    limits = {tuple(prompt): limit for (prompt, limit, _), _ in schedule}
    for prompt, reader in run(schedule, durations, Sampling()):
        assert reader.ending is not None
        # Equal prompts may have unequal limits: compare as far as this one goes.
        alone = greedy(tiny_transformer(), prompt, max(24, limits[tuple(prompt)]), ENDS)
        sure = next((i for i, margin in enumerate(alone.margins) if margin < TOLERANCE), 1 << 30)
        expected = list(alone.tokens)[: len(reader.tokens)]
        assert reader.tokens[:sure] == expected[:sure]


@settings(max_examples=100, deadline=None)
@given(schedule=schedules, seed=st.integers(0, 2**63))
def test_random_output_depends_on_its_seed_alone(schedule: list, seed: int) -> None:
    sampling = Sampling(temperature=1.0, top_p=0.9, top_k=20, seed=seed)
    for prompt, reader in run(schedule, [3, 7], sampling):
        ((_, alone),) = run([((prompt, len(reader.tokens) or 1, 0), None)], [1], sampling)
        assert reader.tokens[: len(alone.tokens)] == alone.tokens
