"""The engine over the tiny decoder, in virtual time; a frame takes a millisecond."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.inline_executor import InlineExecutor
from tests.support.reader import Reader
from tests.support.tiny_decoder import ENDS, GRAPHS, TinyVocabulary, tiny_transformer

from headway.engine.engine import Engine
from headway.engine.executor import ExecutorLimits
from headway.engine.frame import Completion
from headway.engine.lane import EngineLane
from headway.engine.request import Finish, GenerationRequest, Targets
from headway.engine.sampling import Sampling
from headway.engine.scheduling import make_selector
from headway.engine.stepper import Stepper
from headway.engine.timeline import VirtualTimeline
from headway.engine.trace import Trace
from headway.errors import RuntimeInputError
from headway.runtimes.decoder.reference import greedy

MS = 1_000_000
PROMPT = tuple(range(1, 31))


class Rig:
    def __init__(self, *, slots: int = 4, kv_tokens: int = 1000, context: int = 400) -> None:
        self.timeline = VirtualTimeline()
        self.executor = InlineExecutor(
            Stepper(tiny_transformer(), ENDS),
            TinyVocabulary(),
            self.timeline,
            catalogue=GRAPHS,
            limits=ExecutorLimits(slots, kv_tokens, context),
        )
        self.trace = Trace()
        self.engine = Engine(
            self.executor,
            make_selector(GRAPHS, max_lanes=16),
            self.timeline,
            trace=self.trace,
        )

    def admit(
        self, prompt: tuple[int, ...] = PROMPT, limit: int = 8, **fields: Any
    ) -> tuple[Reader, EngineLane]:
        reader = Reader()
        lane = self.engine.admit(GenerationRequest(prompt, limit, **fields), reader)
        assert lane is not None
        return reader, lane

    def run_ms(self, milliseconds: int) -> None:
        self.timeline.run(self.timeline.now_ns() + milliseconds * MS)


def test_an_output_ends_at_its_budget() -> None:
    rig = Rig()
    reader, _ = rig.admit(limit=5)
    rig.timeline.run()
    alone = greedy(tiny_transformer(), PROMPT, 5, ENDS)
    assert reader.tokens == list(alone.tokens)
    assert reader.ending is not None
    assert reader.ending.finish is Finish.LENGTH
    assert (reader.ending.prompt_tokens, reader.ending.output_tokens) == (30, 5)
    assert reader.ending.device_ns > 0


def test_at_most_two_frames_are_in_flight() -> None:
    rig = Rig()
    rig.admit(limit=20)
    rig.admit(limit=20)
    most = 0
    while rig.timeline.step():
        most = max(most, len(rig.executor.frames) - len(rig.trace.steps()))
    assert most == 2


def test_a_neighbour_that_is_cancelled_changes_nothing() -> None:
    rig = Rig()
    kept, _ = rig.admit(limit=12)
    gone, lane = rig.admit(tuple(range(5, 40)), limit=12)
    rig.run_ms(5)
    rig.engine.cancel(lane)
    seen = list(gone.tokens)
    rig.timeline.run()
    assert kept.tokens == list(greedy(tiny_transformer(), PROMPT, 12, ENDS).tokens)
    assert gone.tokens == seen
    assert gone.ending is None
    assert rig.engine.free_lanes == 4


def test_a_cancelled_lane_is_in_no_later_frame() -> None:
    rig = Rig()
    rig.admit(limit=30)
    _, lane = rig.admit(tuple(range(3, 20)), limit=30)
    rig.run_ms(8)
    rig.engine.cancel(lane)
    submitted = len(rig.executor.frames)
    rig.run_ms(8)
    later = rig.executor.frames[submitted:]
    assert later
    assert all(lane.slot not in frame.slots for frame in later)


def test_a_held_lane_waits_and_the_others_go_on() -> None:
    rig = Rig()
    slow, held = rig.admit(limit=20)
    quick, _ = rig.admit(tuple(range(2, 25)), limit=20)
    rig.run_ms(6)
    rig.engine.hold(held, True)
    rig.run_ms(2)
    seen = len(slow.tokens)
    rig.run_ms(60)
    assert quick.ending is not None
    assert len(slow.tokens) == seen < 20
    rig.engine.hold(held, False)
    rig.timeline.run()
    assert slow.tokens == list(greedy(tiny_transformer(), PROMPT, 20, ENDS).tokens)


def test_a_stop_string_ends_the_output_and_its_lane() -> None:
    letters = "".join(chr(64 + t) for t in greedy(tiny_transformer(), PROMPT, 12, ENDS).tokens)
    rig = Rig()
    reader, _ = rig.admit(limit=12, stops=(letters[4:6],))
    rig.timeline.run()
    assert reader.text == letters[: letters.index(letters[4:6])]
    assert reader.ending is not None
    assert reader.ending.finish is Finish.STOP
    assert rig.engine.free_lanes == 4


def test_a_missed_deadline_ends_the_output_as_expired() -> None:
    rig = Rig()
    reader, _ = rig.admit(limit=300, targets=Targets(completion_at_ns=20 * MS))
    rig.timeline.run()
    assert reader.ending is not None
    assert reader.ending.finish is Finish.EXPIRED
    assert 0 < len(reader.tokens) < 100
    assert rig.timeline.now_ns() < 25 * MS


def test_a_prompt_that_begins_alike_is_not_run_again() -> None:
    rig = Rig()
    rig.admit(limit=4)
    rig.timeline.run()
    before = len(rig.executor.frames)
    reader, lane = rig.admit((*PROMPT, 7, 8), limit=4)
    assert lane.reused == 30
    rig.timeline.run()
    chunks = [row.num_tokens for frame in rig.executor.frames[before:] for row in frame.prefill]
    assert sum(chunks) == 2
    assert reader.tokens == list(greedy(tiny_transformer(), (*PROMPT, 7, 8), 4, ENDS).tokens)


def test_without_room_nothing_is_admitted() -> None:
    rig = Rig(slots=1)
    rig.admit()
    assert rig.engine.admit(GenerationRequest(PROMPT, 4), Reader()) is None
    assert rig.engine.free_lanes == 0
    rig.timeline.run()
    assert rig.engine.free_lanes == 1


@pytest.mark.parametrize("length", [0, 400, 500])
def test_a_prompt_beyond_the_context_is_refused(length: int) -> None:
    with pytest.raises(RuntimeInputError, match=f"prompt has {length} tokens; the model takes 1"):
        Rig().engine.admit(GenerationRequest((1,) * length, 4), Reader())


def test_the_budget_is_cut_to_what_the_context_leaves() -> None:
    assert Rig(context=40).engine.check(30, 100) == 10


def tampered(completion: Completion, change: str) -> Completion:
    first = completion.outcomes[0]
    wrong: dict[str, Completion] = {
        "failed": replace(completion, outcomes=(), error="out of memory"),
        "missing": replace(completion, outcomes=completion.outcomes[1:]),
        "stranger": replace(completion, outcomes=[replace(first, slot=9)]),
        "too many": replace(completion, outcomes=[replace(first, tokens=(1,) * 20)]),
    }
    return wrong[change]


@pytest.mark.parametrize("change", ["failed", "missing", "stranger", "too many"])
def test_a_device_that_answers_wrongly_fails_its_lanes(change: str) -> None:
    rig = Rig()
    rig.executor.tamper = lambda completion: tampered(completion, change)
    reader, _ = rig.admit()
    rig.timeline.run()
    assert reader.tokens == []
    assert reader.ending is not None
    assert reader.ending.finish is Finish.FAILED
    # The engine goes on, and nothing of what was on the device is used again.
    rig.executor.tamper = lambda completion: completion
    again, lane = rig.admit()
    assert lane.reused == 0
    rig.timeline.run()
    assert again.tokens == list(greedy(tiny_transformer(), PROMPT, 8, ENDS).tokens)


def test_drafts_that_are_right_save_steps() -> None:
    """A model that falls into a loop: its own text predicts it."""
    prompt = (5, 6, 7, 8) * 6
    rig = Rig()
    reader, _ = rig.admit(prompt, limit=60)
    rig.timeline.run()
    accepted = sum(share.accepted for step in rig.trace.steps() for share in step.lanes)
    steps = [step for step in rig.trace.steps() if any(s.output_tokens for s in step.lanes)]
    assert len(reader.tokens) == 60
    assert accepted > 0
    assert len(steps) == 60 - accepted


def test_log_probabilities_come_with_each_token() -> None:
    rig = Rig()
    reader, _ = rig.admit(limit=5, sampling=Sampling(logprobs=True))
    rig.timeline.run()
    assert len(reader.logprobs) == 5
    assert all(logprob <= 0 for logprob in reader.logprobs)


def test_steps_are_traced_with_their_reasons() -> None:
    rig = Rig()
    rig.admit(limit=4)
    rig.timeline.run()
    steps = rig.trace.steps()
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    assert steps[0].reason == "bootstrap"
    assert sum(share.prompt_tokens for step in steps for share in step.lanes) == 30
    assert sum(share.output_tokens for step in steps for share in step.lanes) == 4
    assert all(step.device_ns == MS for step in steps)
