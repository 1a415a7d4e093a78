"""What must hold after every drill is really looked at."""

from pathlib import Path

import pytest

from headway._core import Rng
from headway.drill.calls import GRACE_NS, OK, WRONG, Calls, Tally
from headway.drill.liar import LIES
from headway.drill.processes import Processes
from headway.drill.stage import DrillFailed, Stage
from headway.rng import SeedTree
from headway.testing import ManualClock
from headway.v1 import control_pb2, types_pb2, worker_pb2

MS = 1_000_000


def stage_with(tally: Tally, tmp_path: Path) -> Stage:
    clock = ManualClock()
    stage = Stage(Processes(tmp_path, clock, "grpcio"), clock, SeedTree(1), print, 1.0)
    calls = Calls([], clock, Rng(1), "m")
    calls.tally = tally
    stage.calls.append(calls)
    return stage


def tally(outcome: str, late_ns: int = -1) -> Tally:
    counted = Tally(latest_ns=late_ns)
    counted.outcomes[outcome] += 3
    return counted


@pytest.mark.parametrize("outcome", [OK, "DEADLINE_EXPIRED", "UNREACHABLE"])
def test_answers_and_typed_errors_in_time_pass(outcome: str, tmp_path: Path) -> None:
    stage_with(tally(outcome, GRACE_NS), tmp_path).check_calls()


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        (tally(OK, GRACE_NS + MS), "a call ended 101 ms after its deadline"),
        (tally(WRONG), "3 calls ended as WRONG_ANSWER"),
        (tally("INTERNAL"), "3 calls ended as INTERNAL"),
        (tally("UNKNOWN"), "3 calls ended as UNKNOWN"),
        (Tally(), "no call was made"),
    ],
)
def test_what_does_not_hold_fails_the_drill(counted: Tally, told: str, tmp_path: Path) -> None:
    with pytest.raises(DrillFailed, match=told):
        stage_with(counted, tmp_path).check_calls()


async def test_a_gateway_that_does_not_come_to_rest_fails_the_drill(tmp_path: Path) -> None:
    class Busy(Stage):
        async def state(self, addresses: object) -> control_pb2.State:
            return control_pb2.State(
                gateway=control_pb2.GatewayState(inflight_requests=2),
                replicas=[control_pb2.ReplicaState(replica="w/m/v1", outstanding_batches=1)],
            )

    clock = ManualClock()
    processes = Processes(tmp_path, clock, "grpcio")
    processes.addresses["gateway-0"] = None  # type: ignore[assignment]  # nobody asks there
    stage = Busy(processes, clock, SeedTree(1), print, 1.0)
    with pytest.raises(DrillFailed, match=r"gateway-0 .*2 requests live, w/m/v1 has 1 batches"):
        async with clock.auto_jump():
            await stage.check_settled()


def test_each_lie_is_another_and_none_is_an_answer() -> None:
    batch = worker_pb2.ExecuteBatch(batch_id=5)
    batch.items.add(item_id=7, input=types_pb2.Input(text="a"))
    told = []
    for lie in LIES:
        result = worker_pb2.BatchResult(batch_id=5, device_ns=1, units=1)
        result.items.add(item_id=7, status=worker_pb2.ITEM_STATUS_OK, output={"text": "other"})
        lie(batch, result)
        told.append(result.SerializeToString())
        honest = [
            item
            for item in result.items
            if (result.batch_id, item.item_id, item.status) == (5, 7, worker_pb2.ITEM_STATUS_OK)
            and item.HasField("output")
        ]
        assert not honest
    assert len(set(told)) == len(LIES) == 7


def test_late_calls_are_told_beside_how_long_the_client_stood_still(tmp_path: Path) -> None:
    counted = tally(OK, GRACE_NS + MS)
    counted.paused_ns = 90 * MS
    with pytest.raises(DrillFailed, match=r"101 ms after its deadline; .* for up to 90 ms"):
        stage_with(counted, tmp_path).check_calls()
    assert counted.figures()["client_paused_ms"] == 90.0
