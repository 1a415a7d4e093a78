import json
import struct
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from typer.testing import CliRunner

from headway import errors
from headway.cli.app import app
from headway.rpc.status import abort_arguments
from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2

MS = 1_000_000


def answer(rows: int) -> inference_pb2.InferResponse:
    vectors = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]][:rows]
    data = b"".join(struct.pack("<3f", *vector) for vector in vectors)
    return inference_pb2.InferResponse(
        request_id="r-7",
        model="minilm",
        version="v2",
        replica="replica-c",
        attempts=2,
        output=types_pb2.Output(
            tensors=[
                types_pb2.Tensor(
                    name="embedding", dtype="DATA_TYPE_FLOAT32", shape=[rows, 3], data=data
                )
            ]
        ),
        usage=types_pb2.Usage(prompt_units=12, rows=rows),
        timings=inference_pb2.Timings(
            queued=Duration(nanos=4 * MS),
            device=Duration(nanos=18 * MS),
            execution=Duration(nanos=20 * MS),
            total=Duration(nanos=24 * MS),
            slack_at_dispatch=Duration(nanos=76 * MS),
        ),
        batch=inference_pb2.BatchInfo(
            id=17,
            size=3,
            rows=5,
            units=90,
            reason="BATCH_REASON_QUANTUM",
            predicted_device=Duration(nanos=19 * MS),
        ),
    )


class Gateway(inference_pb2_grpc.InferenceServiceServicer):
    """Answers with the fixed answer, or with the error that the text names."""

    def __init__(self) -> None:
        self.requests: list[inference_pb2.InferRequest] = []
        self.timeouts: list[float] = []
        self.metadata: dict[str, str] = {}

    def Infer(self, request: Any, context: Any) -> inference_pb2.InferResponse:
        self.requests.append(request)
        self.timeouts.append(context.time_remaining())
        self.metadata = dict(context.invocation_metadata())
        kind = getattr(errors, request.input.text, None)
        if kind is not None:
            error = kind("not now", retry_after_ns=250 * MS)
            code, message, trailers = abort_arguments(error)
            context.set_trailing_metadata(trailers)
            context.abort(code, message)
        return answer(max(1, len(request.input.texts.values)))


@pytest.fixture
def gateway() -> Iterator[tuple[str, Gateway]]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    servicer = Gateway()
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer
    server.stop(None).wait()


def infer(address: str, *arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, ["infer", "--address", address, *arguments], **options)


def test_the_answer_is_shown_with_the_decisions_behind_it(gateway: tuple[str, Gateway]) -> None:
    result = infer(gateway[0], "the tide turns")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.replace("│", "").split())
    for part in (
        "embedding float32 [1, 3] 0: 1 0 0",
        "minilm request r-7",
        "version v2, by the traffic split",
        "replica replica-c after 2 attempts",
        "batch no. 17: 3 requests, 5 rows, 90 units",
        "closed by QUANTUM: the batch-length quantum was reached",
        "time 24.0 ms = queued 4.0 ms + execution 20.0 ms; here",
        "device 18.0 ms, predicted 19.0 ms for the batch",
        "slack 76.0 ms to the deadline at dispatch",
        "work 12 units read",
    ):
        assert part in shown


def test_options_reach_the_request(gateway: tuple[str, Gateway]) -> None:
    address, servicer = gateway
    result = infer(
        address,
        *("x", "--model", "minilm", "--version", "v2", "--session-key", "s"),
        *("--priority", "critical", "--lane", "bulk", "--deadline-ms", "5000"),
        *("--api-key", "hw_12345678_secret"),
    )
    assert result.exit_code == 0
    assert "v2, as asked for" in result.stdout
    (request,) = servicer.requests
    assert request == inference_pb2.InferRequest(
        model="minilm",
        version="v2",
        session_key="s",
        priority="PRIORITY_CRITICAL",
        lane="LANE_BULK",
        input=types_pb2.Input(text="x"),
    )
    assert 4 < servicer.timeouts[0] <= 5
    assert servicer.metadata["authorization"] == "Bearer hw_12345678_secret"


def test_address_and_key_come_from_the_environment(gateway: tuple[str, Gateway]) -> None:
    address, servicer = gateway
    environment = {"HEADWAY_ADDRESS": address, "HEADWAY_API_KEY": "hw_12345678_secret"}
    result = CliRunner().invoke(app, ["infer", "x"], env=environment)
    assert result.exit_code == 0
    assert servicer.metadata["authorization"] == "Bearer hw_12345678_secret"


def test_several_texts_are_rows_and_their_likeness_is_shown(gateway: tuple[str, Gateway]) -> None:
    address, servicer = gateway
    result = infer(address, "a", "b", "c")
    assert list(servicer.requests[0].input.texts.values) == ["a", "b", "c"]
    assert "1: 0.6 0.8 0  cosine to 0: 0.600" in result.stdout
    assert "2: 0 0 1  cosine to 0: 0.000" in result.stdout


def test_lines_of_standard_input_are_rows(gateway: tuple[str, Gateway]) -> None:
    address, servicer = gateway
    assert infer(address, "-", input="one\n\n  \ntwo\n").exit_code == 0
    assert list(servicer.requests[0].input.texts.values) == ["one", "two"]
    result = infer(address, "-", input="\n")
    assert result.exit_code == 2
    assert "standard input has no line with text" in result.stderr


def test_json_is_for_programs(gateway: tuple[str, Gateway]) -> None:
    shown = json.loads(infer(gateway[0], "x", "--json").stdout)
    assert shown["timings_ms"].pop("round_trip") > 0
    assert shown == {
        "request_id": "r-7",
        "model": "minilm",
        "version": "v2",
        "replica": "replica-c",
        "hedged": False,
        "attempts": 2,
        "output": {
            "text": None,
            "tensors": [
                {
                    "name": "embedding",
                    "dtype": "float32",
                    "shape": [1, 3],
                    "values": [[1.0, 0.0, 0.0]],
                }
            ],
        },
        "usage": {"prompt_units": 12, "output_units": 0, "rows": 1, "truncated_rows": 0},
        "timings_ms": {
            "queued": 4.0,
            "device": 18.0,
            "execution": 20.0,
            "total": 24.0,
            "slack_at_dispatch": 76.0,
        },
        "batch": {
            "id": 17,
            "size": 3,
            "rows": 5,
            "units": 90,
            "reason": "QUANTUM",
            "predicted_device_ms": 19.0,
        },
    }


@pytest.mark.parametrize(
    ("kind", "reason", "code"),
    [
        ("Overloaded", "OVERLOADED", 75),
        ("QueueFull", "QUEUE_FULL", 75),
        ("QuotaExceeded", "QUOTA_EXCEEDED", 75),
        ("ModelLoading", "MODEL_LOADING", 75),
        ("NoCapacity", "NO_CAPACITY", 69),
        ("Draining", "DRAINING", 69),
        ("InvalidRequest", "INVALID_REQUEST", 1),
        ("ModelNotFound", "MODEL_NOT_FOUND", 1),
        ("Unauthenticated", "UNAUTHENTICATED", 1),
        ("DeadlineUnreachable", "DEADLINE_UNREACHABLE", 1),
        ("UpstreamFailure", "UPSTREAM_FAILURE", 1),
    ],
)
def test_an_error_is_told_with_its_reason_and_when_to_try_again(
    gateway: tuple[str, Gateway], kind: str, reason: str, code: int
) -> None:
    result = infer(gateway[0], kind)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr == f"{reason}: not now\ntry again in 250 ms\n"
    as_json = infer(gateway[0], kind, "--json")
    assert as_json.exit_code == code
    assert json.loads(as_json.stdout)["error"] == {
        "reason": reason,
        "message": "not now",
        "field": None,
        "retry_after_ms": 250.0,
        "metadata": {},
    }


def test_nobody_there_leaves_with_69() -> None:
    result = infer("127.0.0.1:1", "x")
    assert result.exit_code == 69
    assert result.stderr.startswith("UNREACHABLE: no gateway answers at 127.0.0.1:1")
    assert "start one with `headway serve`" in result.stderr
