"""What clients do wrongly fills no log."""

import logging

import pytest
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc

from headway.rpc.decoding import calm_logs

GRPC = logging.getLogger("grpc._cython.cygrpc")
LEFT = cygrpc.ExecuteBatchError("Failed grpc_call_start_batch: 10")


@pytest.mark.parametrize(
    ("error", "lines"),
    [(LEFT, 0), (DecodeError("truncated"), 0), (ValueError("ours"), 1)],
)
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_client_that_leaves_while_answered_is_no_error(
    caplog: pytest.LogCaptureFixture, error: Exception, lines: int, level: str
) -> None:
    calm_logs()
    with caplog.at_level(level, logger=GRPC.name):
        GRPC.error("ExecuteBatchError raised in core by servicer method", exc_info=error)
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(errors) == lines
    told = [each for each in caplog.records if each.levelno == logging.DEBUG]
    assert len(told) == (1 - lines if level == "DEBUG" else 0)
    assert not [each for each in told if each.exc_info]
