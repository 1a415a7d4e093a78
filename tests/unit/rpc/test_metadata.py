"""What counts as too much metadata, as RFC 9113, 6.5.2 counts it: name, value, and 32 each."""

from types import SimpleNamespace
from typing import Any

import pytest

from headway.rpc.metadata import BoundedMetadata

Headers = tuple[tuple[str, str | bytes], ...]


def handler_for(headers: Headers, max_bytes: int) -> Any:
    return BoundedMetadata(max_bytes).service(SimpleNamespace(invocation_metadata=headers))


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ((), 0),
        ((("a", ""),), 33),
        ((("user-agent", "grpc"),), 46),
        ((("token-bin", b"\x00\xff"), ("a", "b")), 77),
    ],
)
def test_the_size_is_that_of_http2(headers: Headers, size: int) -> None:
    assert handler_for(headers, size) is None
    if size:
        assert handler_for(headers, size - 1) is not None


async def test_what_refuses_reads_no_message_and_names_the_bound() -> None:
    told: dict[str, Any] = {}
    context = SimpleNamespace(
        set_code=lambda code: told.update(code=code.name),
        set_details=lambda details: told.update(details=details),
    )
    handler = handler_for((("a", "b" * 100),), 100)
    await handler.stream_stream(None, context)
    assert told == {
        "code": "RESOURCE_EXHAUSTED",
        "details": "received metadata size exceeds hard limit (133 vs. 100); send less, or raise "
        "limits.max_metadata_bytes",
    }
