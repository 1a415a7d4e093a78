"""Waits until the whole fleet has joined and a real request is served."""

from collections.abc import Callable
from typing import Final

from headway.client import Client, GatewayUnreachable, UnexpectedStatus, text_request
from headway.clock import Clock
from headway.errors import RequestError
from headway.serve.settings import ServeSettings
from headway.v1.inference_pb2 import InferRequest

POLL_NS: Final = 100_000_000
CALL_SECONDS: Final = 10.0


async def wait_until_served(
    settings: ServeSettings, address: str, clock: Clock, progress: Callable[[str], None]
) -> None:
    """Returns once every replica has joined and every version has answered a request.

    Waits for ever; the caller bounds it. `progress` hears what is waited for.
    """
    async with Client(address) as client:
        while (num_ready := await _num_ready(client, settings.model_name)) < len(settings.fleet):
            progress(f"{num_ready} of {len(settings.fleet)} replicas ready")
            await clock.sleep(POLL_NS)
        for version in settings.versions:
            progress(f"first request to {settings.model_name} {version}")
            request = text_request("ready?", model=settings.model_name, version=version)
            while not await _served(client, request):
                await clock.sleep(POLL_NS)


async def _num_ready(client: Client, name: str) -> int:
    try:
        models = await client.list_models(timeout_s=CALL_SECONDS)
    except (RequestError, GatewayUnreachable, UnexpectedStatus):
        return 0
    served = (model for model in models if model.model == name)
    return sum(version.ready_replicas for model in served for version in model.versions)


async def _served(client: Client, request: InferRequest) -> bool:
    try:
        await client.infer(request, timeout_s=CALL_SECONDS)
    except (RequestError, GatewayUnreachable, UnexpectedStatus):
        return False
    return True
