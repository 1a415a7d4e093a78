"""Several engines on one device: each gets the device time it wants, up to an equal share."""

import pytest

from headway._core import Rng
from headway.engine.engine import Engine
from headway.engine.executor import ExecutorLimits
from headway.engine.request import Ending, GenerationRequest
from headway.engine.scheduling import make_selector
from headway.engine.sharing import DeviceShare
from headway.engine.simulated import SimulatedExecutor, SimulatedOutput
from headway.engine.surface import CpuLikeSurface
from headway.engine.timeline import VirtualTimeline

S = 1_000_000_000


class Writer:
    """An engine on a shared device, and the tokens it has written."""

    def __init__(self, share: DeviceShare, timeline: VirtualTimeline, rows: int) -> None:
        self.device = SimulatedExecutor(
            CpuLikeSurface(),
            timeline,
            Rng(1),
            limits=ExecutorLimits(8, 1 << 20, 1 << 16),
            output_of=lambda lane: SimulatedOutput(1 << 15),
        )
        shared = share.join(self.device)
        selector = make_selector(shared.catalogue, max_lanes=16)
        self.engine = Engine(shared, selector, timeline, reuse=False)
        self.tokens = 0
        for number in range(rows):
            request = GenerationRequest(prompt=(1, 2), output_limit=1 << 14, request_id=str(number))
            assert self.engine.admit(request, self) is not None

    def on_output(self, text: str, token_ids: object, logprobs: object) -> None:
        self.tokens += len(token_ids)  # type: ignore[arg-type]

    def on_end(self, ending: Ending) -> None:
        raise AssertionError("nothing ends here")


@pytest.mark.parametrize("rows", [(1, 1), (1, 8), (8, 1)])
def test_each_has_half_of_the_device_whatever_its_steps_cost(rows: tuple[int, int]) -> None:
    timeline, share = VirtualTimeline(), DeviceShare()
    writers = [Writer(share, timeline, count) for count in rows]
    timeline.run(120 * S)
    busy_s = [writer.device.busy_ns / S for writer in writers]
    # One frame at a time, no gaps; equal but for a frame of each.
    assert sum(busy_s) == pytest.approx(120, abs=1.0)
    assert busy_s[0] == pytest.approx(busy_s[1], abs=1.0)


def test_who_has_nothing_to_do_leaves_the_device_to_the_other_and_saves_up_nothing() -> None:
    timeline, share = VirtualTimeline(), DeviceShare()
    first = Writer(share, timeline, 1)
    second = Writer(share, timeline, 0)
    timeline.run(60 * S)
    assert first.device.busy_ns / S == pytest.approx(60, abs=0.5)
    late = GenerationRequest(prompt=(1, 2), output_limit=1 << 14, request_id="late")
    second.engine.admit(late, second)
    timeline.run(80 * S)
    assert second.device.busy_ns / S == pytest.approx(10, abs=0.5)
    assert first.device.busy_ns / S == pytest.approx(70, abs=0.5)
