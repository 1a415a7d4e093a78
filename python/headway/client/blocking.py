"""The same clients for code without an event loop.

Each client has a thread with a loop of its own; its methods may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from headway.client.blocking_rollouts import BlockingRolloutCalls
from headway.client.client import DEFAULT_MESSAGE_BYTES, Client
from headway.client.closing import BlockingClosing
from headway.client.control import ControlClient
from headway.client.retry import RetryPolicy
from headway.client.tls import ClientTls
from headway.v1 import control_pb2, inference_pb2

Answer = TypeVar("Answer")


class _Loop:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Waits for it; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Runs `last`, then ends the thread. Repeating it changes nothing."""
        if self._loop.is_closed():
            return

        async def end() -> None:
            await last()

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingClient(BlockingClosing):
    """Calls a gateway's InferenceService; see `Client`."""

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: ClientTls | None = None,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Connects when first used. `address`: host:port of the data port."""
        self._loop = _Loop("headway client")

        async def make() -> Client:
            return Client(
                address, api_key=api_key, tls=tls, max_message_bytes=max_message_bytes, retry=retry
            )

        self._client = self._loop.run(make())

    def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """One answer. Raises as `Client.infer` does."""
        return self._loop.run(self._client.infer(request, timeout_s=timeout_s))

    def list_models(self, *, timeout_s: float | None = None) -> Sequence[inference_pb2.ServedModel]:
        """The models that are served, by name."""
        return self._loop.run(self._client.list_models(timeout_s=timeout_s))

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        self._loop.close(self._client.close)


class BlockingControlClient(BlockingRolloutCalls, BlockingClosing):
    """Calls a gateway's ControlService; see `ControlClient`."""

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: ClientTls | None = None,
        timeout_s: float = 10.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Connects when first used. `address`: host:port of the control port."""
        self._loop = _Loop("headway control client")

        async def make() -> ControlClient:
            return ControlClient(
                address, api_key=api_key, tls=tls, timeout_s=timeout_s, retry=retry
            )

        self._client = self._loop.run(make())

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run(work)

    @property
    def _calls(self) -> ControlClient:
        return self._client

    def state(self) -> control_pb2.State:
        """The whole state."""
        return self._loop.run(self._client.state())

    def watch(self, interval_s: float = 1.0) -> Iterator[control_pb2.WatchStateResponse]:
        """The whole state, then its changes."""
        changes = self._client.watch(interval_s)

        async def following() -> control_pb2.WatchStateResponse | None:
            return await anext(changes, None)

        while (change := self._loop.run(following())) is not None:
            yield change

    def replicas(self, model: str = "") -> Sequence[control_pb2.ReplicaState]:
        """Replicas by name, of one model or of all."""
        return self._loop.run(self._client.replicas(model))

    def drain(self, worker_id: str) -> Sequence[control_pb2.ReplicaState]:
        """Sends a worker no more work; what it has, it finishes."""
        return self._loop.run(self._client.drain(worker_id))

    def undrain(self, worker_id: str) -> Sequence[control_pb2.ReplicaState]:
        """Takes a drain back."""
        return self._loop.run(self._client.undrain(worker_id))

    def split(self, model: str) -> control_pb2.TrafficSplit:
        """How a model's unpinned traffic divides."""
        return self._loop.run(self._client.split(model))

    def set_split(self, model: str, shares: Mapping[str, float]) -> control_pb2.TrafficSplit:
        """Divides it anew."""
        return self._loop.run(self._client.set_split(model, shares))

    def tenants(self) -> Sequence[control_pb2.Tenant]:
        """All tenants, by name."""
        return self._loop.run(self._client.tenants())

    def create_tenant(self, tenant: control_pb2.Tenant) -> control_pb2.Tenant:
        """Adds a tenant."""
        return self._loop.run(self._client.create_tenant(tenant))

    def update_tenant(self, tenant: control_pb2.Tenant) -> control_pb2.Tenant:
        """Replaces all that is known of a tenant."""
        return self._loop.run(self._client.update_tenant(tenant))

    def delete_tenant(self, tenant: str) -> None:
        """Removes a tenant and its keys."""
        self._loop.run(self._client.delete_tenant(tenant))

    def keys(self, tenant: str = "") -> Sequence[control_pb2.ApiKey]:
        """Keys by id, of one tenant or of all, without their secrets."""
        return self._loop.run(self._client.keys(tenant))

    def create_key(
        self,
        tenant: str,
        *,
        role: "control_pb2.Role" = control_pb2.ROLE_UNSPECIFIED,
        valid_for_s: float | None = None,
        description: str = "",
    ) -> control_pb2.CreateApiKeyResponse:
        """Makes a key; the secret is in the answer and nowhere else."""
        made = self._client.create_key(
            tenant, role=role, valid_for_s=valid_for_s, description=description
        )
        return self._loop.run(made)

    def rotate_key(
        self, key_id: str, *, overlap_s: float | None = None
    ) -> control_pb2.RotateApiKeyResponse:
        """Makes a key in place of another, which stays valid for `overlap_s` (default a day)."""
        return self._loop.run(self._client.rotate_key(key_id, overlap_s=overlap_s))

    def revoke_key(self, key_id: str) -> None:
        """Ends a key."""
        self._loop.run(self._client.revoke_key(key_id))

    def reload(self, *, dry_run: bool = False) -> control_pb2.ReloadConfigResponse:
        """Reads the configuration again, or says what that would change."""
        return self._loop.run(self._client.reload(dry_run=dry_run))

    def explain(self, request_id: str) -> control_pb2.ExplainRequestResponse:
        """What happened to a request that this gateway took, and why."""
        return self._loop.run(self._client.explain(request_id))

    def set_log_level(self, level: str, logger: str = "") -> str:
        """Changes how much is logged; returns the level before."""
        return self._loop.run(self._client.set_log_level(level, logger))

    def audit(self, *, target: str = "", limit: int = 100) -> Sequence[control_pb2.AuditEntry]:
        """The newest changes, newest first: who, what, before, after."""
        return self._loop.run(self._client.audit(target=target, limit=limit))

    def close(self) -> None:
        """Closes the connection and ends the thread."""
        self._loop.close(self._client.close)
