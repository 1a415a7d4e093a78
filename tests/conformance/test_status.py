"""Every error that can leave has one row in the status table, and says what its row promises."""

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2

from headway import errors
from headway.rpc.status import STATUS_OF, abort_arguments, to_status

REASONS = (
    "QUOTA_EXCEEDED OVERLOADED QUEUE_FULL DEADLINE_UNREACHABLE DEADLINE_EXPIRED NO_CAPACITY "
    "MODEL_NOT_FOUND MODEL_LOADING UNAUTHENTICATED PERMISSION_DENIED INVALID_REQUEST "
    "UPSTREAM_FAILURE CANCELLED DRAINING"
).split()


def leaves(kind: type[errors.RequestError]) -> list[type[errors.RequestError]]:
    below = kind.__subclasses__()
    return [leaf for sub in below for leaf in leaves(sub)] if below else [kind]


def test_each_leaf_has_a_row_and_each_row_a_leaf() -> None:
    found = leaves(errors.RequestError)
    assert len(found) == 19
    assert set(found) == set(STATUS_OF)


def test_reasons_are_unique_and_cover_the_wire_api() -> None:
    reasons = [leaf.reason for leaf in leaves(errors.RequestError)]
    assert len(reasons) == len(set(reasons))
    assert set(REASONS) <= set(reasons)


@pytest.mark.parametrize("kind", leaves(errors.RequestError))
def test_every_error_carries_error_info(kind: type[errors.RequestError]) -> None:
    status = to_status(kind("why and what to do", metadata={"needed_units": "7"}))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.reason == kind.reason
    assert info.domain == "headway.v1"
    assert dict(info.metadata) == {"needed_units": "7"}
    assert status.message == "why and what to do"
    assert status.code == STATUS_OF[kind].value[0]


def test_a_retry_delay_reaches_details_and_pushback() -> None:
    error = errors.Overloaded("later", retry_after_ns=1_500_001)
    code, _, trailers = abort_arguments(error)
    retry = error_details_pb2.RetryInfo()
    assert to_status(error).details[1].Unpack(retry)
    assert retry.retry_delay.nanos == 1_500_001
    assert code == grpc.StatusCode.UNAVAILABLE
    # Rounded up: a client that returns too early is refused again.
    assert dict(trailers)["grpc-retry-pushback-ms"] == "2"


def test_without_a_retry_delay_there_is_no_pushback() -> None:
    _, _, trailers = abort_arguments(errors.InvalidRequest("no", field="input"))
    assert [key for key, _ in trailers] == ["grpc-status-details-bin"]


def test_an_invalid_request_names_its_field() -> None:
    status = to_status(errors.InvalidRequest("slo is 0 s; it must be above 0", field="slo"))
    bad = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(bad)
    assert [v.field for v in bad.field_violations] == ["slo"]


def test_what_is_not_ours_leaks_nothing() -> None:
    code, message, _ = abort_arguments(RuntimeError("password=hunter2"))
    assert code == grpc.StatusCode.INTERNAL
    assert "hunter2" not in message
    assert to_status(KeyError("x")).code == code_pb2.INTERNAL
