import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import StatusCode, aio

from headway import errors
from headway.client import GatewayUnreachable, UnexpectedStatus, from_call, from_status
from headway.rpc.status import STATUS_OF, abort_arguments, to_status


@pytest.mark.parametrize("kind", STATUS_OF, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_arrives_as_it_was_sent(kind: type[errors.RequestError]) -> None:
    sent = kind("no", field="input", retry_after_ns=250_000_000, metadata={"needed_units": "7"})
    received = from_status(to_status(sent))
    assert type(received) is kind
    assert isinstance(received, errors.RequestError)
    assert (received.message, received.retry_after_ns) == ("no", 250_000_000)
    assert received.metadata == {"needed_units": "7"}
    assert received.field == ("input" if kind is errors.InvalidRequest else "")


def call_error(
    code: StatusCode, details: str, trailers: tuple[tuple[str, str | bytes], ...] = ()
) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*trailers), details=details)


def test_a_failed_call_is_read_from_its_trailers() -> None:
    code, message, trailers = abort_arguments(errors.QueueFull("full", retry_after_ns=1_000_000))
    error = from_call(call_error(code, message, trailers), "127.0.0.1:1")
    assert isinstance(error, errors.QueueFull)
    assert error.retry_after_ns == 1_000_000


def test_nobody_there_names_the_address_and_the_way_out() -> None:
    error = from_call(call_error(StatusCode.UNAVAILABLE, "connection refused"), "127.0.0.1:7")
    assert isinstance(error, GatewayUnreachable)
    assert error.message == (
        "no gateway answers at 127.0.0.1:7 (connection refused); start one with `headway serve`, "
        "or name its address with --address"
    )


def test_a_deadline_that_the_client_noticed_itself_is_the_same_error() -> None:
    error = from_call(call_error(StatusCode.DEADLINE_EXCEEDED, ""), "x")
    assert isinstance(error, errors.DeadlineExpired)


def test_a_call_that_a_closing_gateway_dropped_may_be_tried_again() -> None:
    error = from_call(call_error(StatusCode.CANCELLED, "CANCELLED"), "127.0.0.1:7")
    assert isinstance(error, GatewayUnreachable)
    assert error.message == "the gateway at 127.0.0.1:7 went away; try again"


def test_an_unknown_reason_is_kept() -> None:
    info = error_details_pb2.ErrorInfo(reason="FROM_THE_FUTURE", domain="headway.v1")
    status = status_pb2.Status(code=code_pb2.ABORTED, message="later")
    status.details.add().Pack(info)
    error = from_status(status)
    assert isinstance(error, UnexpectedStatus)
    assert (error.reason, error.message) == ("FROM_THE_FUTURE", "later")
    plain = from_call(call_error(StatusCode.UNIMPLEMENTED, "no such method"), "x")
    assert isinstance(plain, UnexpectedStatus)
    assert (plain.reason, plain.message) == ("UNIMPLEMENTED", "no such method")


@pytest.mark.parametrize(
    ("said", "hinted"),
    [
        ("failed to connect to all addresses; last error: UNAVAILABLE: Socket closed", True),
        ("Ssl handshake failed: SSL_ERROR_SSL: WRONG_VERSION_NUMBER", True),
        ("ipv4:127.0.0.1:7: Failed to connect to remote host: connect: Connection refused", False),
        ("DNS resolution failed for nowhere.example:7", False),
    ],
)
def test_what_tls_may_have_caused_names_its_options(said: str, hinted: bool) -> None:
    error = from_call(call_error(StatusCode.UNAVAILABLE, said), "127.0.0.1:7")
    assert ("--tls-ca" in str(error)) is hinted
    assert ("--tls-cert" in str(error)) is hinted
