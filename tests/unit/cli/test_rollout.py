import json
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from typer.testing import CliRunner

from headway import errors
from headway.cli.app import app
from headway.rpc.status import abort_arguments
from headway.v1 import control_pb2, control_pb2_grpc

MS = 1_000_000
BASELINE = control_pb2.ArmEvidence(
    version="v1", requests=900, errors=1, p50=Duration(nanos=20 * MS), p95=Duration(nanos=40 * MS),
    p95_low=Duration(nanos=36 * MS), p95_high=Duration(nanos=45 * MS), utilisation=0.4, replicas=2,
    error_rate_high=0.01,
)  # fmt: skip
CANARY = control_pb2.ArmEvidence(
    version="v2", requests=100, errors=9, p50=Duration(nanos=21 * MS), p95=Duration(nanos=41 * MS),
    error_rate_low=0.03, error_rate_high=0.18, utilisation=0.2, replicas=1, sheds=3,
)  # fmt: skip


def rollout(phase: str = "RUNNING", **changes: Any) -> control_pb2.Rollout:
    made = control_pb2.Rollout(
        rollout_id="m-1", model="m", baseline_version="v1", canary_version="v2",
        phase=f"ROLLOUT_PHASE_{phase}", step=1, canary_share=0.05,
        policy=control_pb2.RolloutPolicy(steps=[0.01, 0.05, 1.0]), reason="every gate is met",
        started_at=Timestamp(seconds=1_700_000_000), **changes,
    )  # fmt: skip
    if phase not in ("RUNNING", "PAUSED"):
        made.ended_at.CopyFrom(Timestamp(seconds=1_700_000_100))
        return made
    made.progress.CopyFrom(
        control_pb2.RolloutProgress(
            step_elapsed=Duration(seconds=40), next_analysis=Duration(seconds=20),
            baseline=BASELINE, canary=CANARY, evidence={"errors": 12.5, "rank": 0.3},
            bounds={"errors": 285.7, "rank": 500.0}, healthy_streak=1,
        )
    )  # fmt: skip
    return made


def verdict(sequence: int, decision: str, test: str, reason: str) -> control_pb2.Verdict:
    return control_pb2.Verdict(
        sequence=sequence, decided_at=Timestamp(seconds=1_700_000_000 + sequence),
        decision=f"VERDICT_DECISION_{decision}", test=test, reason=reason, baseline=BASELINE,
        canary=CANARY, evidence={"errors": 12.5, "rank": 0.3}, step=0, canary_share=0.01,
    )  # fmt: skip


class Control(control_pb2_grpc.ControlServiceServicer):
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers = [rollout()]
        self.error: errors.RequestError | None = None

    def _next(self, request: Any, context: Any) -> control_pb2.Rollout:
        self.asked.append(request)
        if self.error is not None:
            code, message, trailers = abort_arguments(self.error)
            context.set_trailing_metadata(trailers)
            context.abort(code, message)
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)

    def StartRollout(self, request: Any, context: Any) -> Any:
        return control_pb2.StartRolloutResponse(rollout=self._next(request, context))

    def GetRollout(self, request: Any, context: Any) -> Any:
        return control_pb2.GetRolloutResponse(rollout=self._next(request, context))

    def PauseRollout(self, request: Any, context: Any) -> Any:
        return control_pb2.PauseRolloutResponse(rollout=self._next(request, context))

    def AbortRollout(self, request: Any, context: Any) -> Any:
        return control_pb2.AbortRolloutResponse(rollout=self._next(request, context))

    def ListRollouts(self, request: Any, context: Any) -> Any:
        return control_pb2.ListRolloutsResponse(rollouts=[self._next(request, context)])

    def ListVerdicts(self, request: Any, context: Any) -> Any:
        return control_pb2.ListVerdictsResponse(
            verdicts=[
                verdict(1, "HOLD", "policy", "280 s short"),
                verdict(2, "HOLD", "policy", "250 s short"),
                verdict(3, "ROLL_BACK", "errors", "the error rate is beyond tolerance"),
            ]
        )


@pytest.fixture
def gateway() -> Iterator[tuple[str, Control]]:
    control = Control()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    control_pb2_grpc.add_ControlServiceServicer_to_server(control, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", control
    server.stop(None)


def run(address: str, *arguments: str) -> Any:
    command = ["rollout", *arguments, "--address", address]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200"})


def test_start_sends_what_flags_and_file_say(gateway: tuple[str, Control], tmp_path: Path) -> None:
    address, control = gateway
    policy = tmp_path / "policy.toml"
    policy.write_text('preset = "fast"\nlatency_tolerance = 1.5\nno_data = "roll_back"\n')
    result = run(
        address, "start", "m", "v2", "--policy", str(policy), "--latency-tolerance", "1.3",
        "--steps", "10,50,100", "--min-step-seconds", "7", "--shadow", "5",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (asked,) = control.asked
    assert (asked.model, asked.canary_version, asked.policy.preset) == ("m", "v2", "fast")
    assert MessageToDict(asked.policy.settings) == {
        "latency_tolerance": 1.3,
        "no_data": "roll_back",
        "steps": [0.1, 0.5, 1.0],
        "least": {"min_seconds": 7.0},
        "shadow": {"share": 0.05},
    }


def test_a_rollout_is_shown_with_both_arms_evidence_and_what_comes_next(
    gateway: tuple[str, Control],
) -> None:
    result = run(gateway[0], "start", "m", "v2")
    for shown in (
        "running: every gate is met",
        "v1 95.0%, v2 5.0% (step 2 of 3; 1 %, 5 %, 100 %)",
        "step      40 s; next analysis in 20 s; analyses in a row: 1 for going on, 0 against",
        "9 (3.00% to 18.00%)",
        "40.0 ms (36.0 ms to 45.0 ms)",
        "12.5",
        "286",
    ):
        assert shown in result.stdout


def test_show_tells_the_trail_in_words(gateway: tuple[str, Control]) -> None:
    result = run(gateway[0], "show", "m-1")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "2 2023-11-14 22:13:22Z at 1%: hold (policy) 250 s short" in text
    assert "(the last of 2 like it)" in text
    assert "280 s short" not in text
    assert "3 2023-11-14 22:13:23Z at 1%: roll back (errors) the error rate is beyond" in text
    assert "900 and 100 requests, 1 and 9 errors, p95 40.0 ms and 41.0 ms" in text
    plain = json.loads(run(gateway[0], "show", "m-1", "--json").stdout)
    assert [each["test"] for each in plain["verdicts"]] == ["policy", "policy", "errors"]
    assert plain["rollout"]["rollout_id"] == "m-1"


@pytest.mark.parametrize(("phase", "code"), [("PROMOTED", 0), ("ROLLED_BACK", 1), ("ABORTED", 1)])
def test_watch_ends_with_the_rollout(gateway: tuple[str, Control], phase: str, code: int) -> None:
    gateway[1].answers = [rollout(phase)]
    result = run(gateway[0], "watch", "m-1", "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["phase"] == f"ROLLOUT_PHASE_{phase}"


def test_abort_says_why(gateway: tuple[str, Control]) -> None:
    gateway[1].answers = [rollout("ABORTED")]
    result = run(gateway[0], "abort", "m-1", "--reason", "wrong weights")
    assert result.exit_code == 0
    assert (gateway[1].asked[0].rollout_id, gateway[1].asked[0].reason) == ("m-1", "wrong weights")


def test_list_shows_one_a_line(gateway: tuple[str, Control]) -> None:
    result = run(gateway[0], "list")
    (line,) = [line for line in result.stdout.splitlines() if "m-1" in line]
    assert line.split()[:6] == ["m-1", "m", "v1", "v2", "running", "5%"]


def test_a_refusal_is_told_in_the_form_that_was_asked_for(gateway: tuple[str, Control]) -> None:
    gateway[1].error = errors.FailedPrecondition("rollout m-1 is promoted and cannot be paused")
    result = run(gateway[0], "pause", "m-1")
    assert result.exit_code == 1
    assert "FAILED_PRECONDITION: rollout m-1 is promoted and cannot be paused" in result.stderr
    as_json = run(gateway[0], "pause", "m-1", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["error"]["reason"] == "FAILED_PRECONDITION"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["start", "m", "v2", "--steps", "a,b"], "--steps 'a,b' is not a list of percents"),
        (["start", "m", "v2", "--policy", "/nowhere.toml"], "--policy /nowhere.toml: "),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["rollout", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


def test_simulate_prints_figures_beside_the_prototypes() -> None:
    arguments = ["rollout", "simulate", "--runs", "50", "--case", "dead"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith("dead, failing one by one: 5 rolled_back of 5 (5 errors); ")
    assert "[prototype: 4 requests, 0.1 min]" in result.stdout
    again = CliRunner().invoke(app, [*arguments, "--json"])
    (figures,) = json.loads(again.stdout)
    assert (figures["num_runs"], figures["tests"]) == (5, {"errors": 5})


def test_verify_rollout_knows_its_canaries() -> None:
    result = CliRunner().invoke(app, ["verify-rollout", "sleepy"])
    assert result.exit_code == 2
    assert "good, errors, slow, dead, starved, bimodal" in result.stderr
