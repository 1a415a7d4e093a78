"""Outputs as they are written: ``InferStream``."""

from collections.abc import AsyncGenerator
from typing import Any

from grpc import aio

from headway.client.errors import from_call
from headway.errors import ConfigError
from headway.v1 import inference_pb2


async def events(
    call: Any, address: str, certificate_problem: ConfigError | None = None
) -> AsyncGenerator[inference_pb2.InferStreamResponse]:
    """The events of a call to `address`.

    `certificate_problem`: why renewed certificates are not in use, for the error.

    Raises:
      RequestError: the gateway refused it or it ended early; `StreamBroken` if parts had come.
      GatewayUnreachable: nobody answered.
      UnexpectedStatus: the answer was of no known kind.
    """
    try:
        while (event := await call.read()) is not aio.EOF:
            yield event
    except aio.AioRpcError as error:
        raise from_call(error, address, certificate_problem) from error
    finally:
        call.cancel()
