"""ControlService, typed: what an operator does, from Python."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar

from grpc import aio

from headway.client.client import Credentials
from headway.client.closing import Closing
from headway.client.errors import from_call
from headway.client.retry import NO_RETRY, RetryPolicy, with_retries
from headway.client.rollouts import RolloutCalls
from headway.client.tls import ClientTls, channel_tls
from headway.clock import Clock, SystemClock
from headway.errors import ConfigError
from headway.rng import SeedTree, fresh_root
from headway.rpc.convert import NS_PER_S, duration_from_ns
from headway.rpc.renewal import RenewedChannel
from headway.v1 import control_pb2, control_pb2_grpc

Answer = TypeVar("Answer")

DEFAULT_TIMEOUT_S = 10.0
_PAGE = 1000


class ControlClient(RolloutCalls, Closing):
    """Operates one gateway, and what it shares with others.

    Bound to the event loop in which it is first used. Every method raises the errors of
    `headway.errors` as the gateway sent them, or GatewayUnreachable. Calls that may be repeated
    without harm are retried as the gateway asks; those that make something are not. Renewed
    certificates are shown by the calls that begin after.
    """

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None = None,
        tls: ClientTls | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connects when first used.

        Args:
          address: host:port of the gateway's control port.
          api_key: of a role that may do what is asked.
          tls: for a gateway with TLS; None for plaintext. Its files are read here.
          timeout_s: for each call with its retries.
          retry: default RetryPolicy().
          clock: default the system's.

        Raises:
          ConfigError: the files of `tls` cannot be used.
        """
        self.address = address
        self._metadata = Credentials(api_key).metadata
        self._timeout_s = timeout_s
        self._retry = retry or RetryPolicy()
        self._clock = clock or SystemClock()
        self._rng = SeedTree(fresh_root()).stream("control client")
        self._channel: RenewedChannel[Any] = RenewedChannel(
            address, channel_tls(tls), control_pb2_grpc.ControlServiceStub
        )

    @property
    def certificate_problem(self) -> ConfigError | None:
        """Why the files of `tls` as they are now are not used; None if they are."""
        return self._channel.problem

    # -- state

    async def state(self) -> control_pb2.State:
        """The whole state."""
        response = await self._call(
            "GetState", control_pb2.GetStateResponse, control_pb2.GetStateRequest()
        )
        return response.state

    async def watch(
        self, interval_s: float = 1.0
    ) -> AsyncGenerator[control_pb2.WatchStateResponse, None]:
        """The whole state, then its changes. Ends with an error when the connection is lost."""
        request = control_pb2.WatchStateRequest(interval=_duration(interval_s))
        held = self._channel.take()
        call = held.calls.WatchState(request, metadata=self._metadata)
        try:
            async for change in call:
                yield change
        except aio.AioRpcError as error:
            raise from_call(error, self.address, self.certificate_problem) from error
        finally:
            call.cancel()
            held.release()

    # -- replicas and traffic

    async def replicas(self, model: str = "") -> Sequence[control_pb2.ReplicaState]:
        """Replicas by name, of one model or of all."""
        response = await self._call(
            "ListReplicas",
            control_pb2.ListReplicasResponse,
            control_pb2.ListReplicasRequest(model=model),
        )
        return response.replicas

    async def drain(self, worker_id: str) -> Sequence[control_pb2.ReplicaState]:
        """Sends a worker no more work; what it has, it finishes."""
        request = control_pb2.DrainReplicaRequest(worker_id=worker_id)
        return (
            await self._call("DrainReplica", control_pb2.DrainReplicaResponse, request)
        ).replicas

    async def undrain(self, worker_id: str) -> Sequence[control_pb2.ReplicaState]:
        """Takes a drain back."""
        request = control_pb2.UndrainReplicaRequest(worker_id=worker_id)
        return (
            await self._call("UndrainReplica", control_pb2.UndrainReplicaResponse, request)
        ).replicas

    async def split(self, model: str) -> control_pb2.TrafficSplit:
        """How a model's unpinned traffic divides."""
        request = control_pb2.GetTrafficSplitRequest(model=model)
        return (
            await self._call("GetTrafficSplit", control_pb2.GetTrafficSplitResponse, request)
        ).split

    async def set_split(self, model: str, shares: Mapping[str, float]) -> control_pb2.TrafficSplit:
        """Divides it anew; shares add up to 1, the first version also takes what others cannot."""
        request = control_pb2.SetTrafficSplitRequest(
            model=model,
            shares=[control_pb2.VersionShare(version=v, share=s) for v, s in shares.items()],
        )
        return (
            await self._call("SetTrafficSplit", control_pb2.SetTrafficSplitResponse, request)
        ).split

    # -- tenants and keys

    async def tenants(self) -> Sequence[control_pb2.Tenant]:
        """All tenants, by name."""
        found: list[control_pb2.Tenant] = []
        token = ""
        while True:
            request = control_pb2.ListTenantsRequest(page_size=_PAGE, page_token=token)
            response = await self._call("ListTenants", control_pb2.ListTenantsResponse, request)
            found += response.tenants
            token = response.next_page_token
            if not token:
                return found

    async def create_tenant(self, tenant: control_pb2.Tenant) -> control_pb2.Tenant:
        """Adds a tenant."""
        request = control_pb2.CreateTenantRequest(tenant=tenant)
        return (
            await self._call("CreateTenant", control_pb2.CreateTenantResponse, request, again=False)
        ).tenant

    async def update_tenant(self, tenant: control_pb2.Tenant) -> control_pb2.Tenant:
        """Replaces all that is known of a tenant."""
        request = control_pb2.UpdateTenantRequest(tenant=tenant)
        return (await self._call("UpdateTenant", control_pb2.UpdateTenantResponse, request)).tenant

    async def delete_tenant(self, tenant: str) -> None:
        """Removes a tenant and its keys."""
        request = control_pb2.DeleteTenantRequest(tenant=tenant)
        await self._call("DeleteTenant", control_pb2.DeleteTenantResponse, request, again=False)

    async def keys(self, tenant: str = "") -> Sequence[control_pb2.ApiKey]:
        """Keys by id, of one tenant or of all, without their secrets."""
        found: list[control_pb2.ApiKey] = []
        token = ""
        while True:
            request = control_pb2.ListApiKeysRequest(
                tenant=tenant, page_size=_PAGE, page_token=token
            )
            response = await self._call("ListApiKeys", control_pb2.ListApiKeysResponse, request)
            found += response.keys
            token = response.next_page_token
            if not token:
                return found

    async def create_key(
        self,
        tenant: str,
        *,
        role: "control_pb2.Role" = control_pb2.ROLE_UNSPECIFIED,
        valid_for_s: float | None = None,
        description: str = "",
    ) -> control_pb2.CreateApiKeyResponse:
        """Makes a key; the secret is in the answer and nowhere else."""
        request = control_pb2.CreateApiKeyRequest(tenant=tenant, role=role, description=description)
        if valid_for_s is not None:
            request.valid_for.CopyFrom(_duration(valid_for_s))
        response = await self._call(
            "CreateApiKey", control_pb2.CreateApiKeyResponse, request, again=False
        )
        return response

    async def rotate_key(
        self, key_id: str, *, overlap_s: float | None = None
    ) -> control_pb2.RotateApiKeyResponse:
        """Makes a key in place of another, which stays valid for `overlap_s` (default a day)."""
        request = control_pb2.RotateApiKeyRequest(key_id=key_id)
        if overlap_s is not None:
            request.overlap.CopyFrom(_duration(overlap_s))
        response = await self._call(
            "RotateApiKey", control_pb2.RotateApiKeyResponse, request, again=False
        )
        return response

    async def revoke_key(self, key_id: str) -> None:
        """Ends a key."""
        await self._call(
            "RevokeApiKey",
            control_pb2.RevokeApiKeyResponse,
            control_pb2.RevokeApiKeyRequest(key_id=key_id),
        )

    # -- the gateway itself

    async def reload(self, *, dry_run: bool = False) -> control_pb2.ReloadConfigResponse:
        """Reads the configuration again, or says what that would change."""
        request = control_pb2.ReloadConfigRequest(dry_run=dry_run)
        response = await self._call(
            "ReloadConfig", control_pb2.ReloadConfigResponse, request, again=False
        )
        return response

    async def explain(self, request_id: str) -> control_pb2.ExplainRequestResponse:
        """What happened to a request that this gateway took, and why."""
        request = control_pb2.ExplainRequestRequest(request_id=request_id)
        response = await self._call("ExplainRequest", control_pb2.ExplainRequestResponse, request)
        return response

    async def set_log_level(self, level: str, logger: str = "") -> str:
        """Changes how much is logged; returns the level before."""
        request = control_pb2.SetLogLevelRequest(level=level, logger=logger)
        return str(
            (
                await self._call("SetLogLevel", control_pb2.SetLogLevelResponse, request)
            ).previous_level
        )

    async def audit(
        self, *, target: str = "", limit: int = 100
    ) -> Sequence[control_pb2.AuditEntry]:
        """The newest changes, newest first: who, what, before, after."""
        found: list[control_pb2.AuditEntry] = []
        token = ""
        while len(found) < limit:
            request = control_pb2.ListAuditEntriesRequest(
                page_size=min(_PAGE, limit - len(found)), page_token=token, target=target
            )
            response = await self._call(
                "ListAuditEntries", control_pb2.ListAuditEntriesResponse, request
            )
            found += response.entries
            token = response.next_page_token
            if not token:
                break
        return found

    # -- life

    async def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        await self._channel.close()

    async def _call(
        self, method: str, _kind: type[Answer], request: Any, *, again: bool = True
    ) -> Answer:
        async def once(timeout_s: float | None) -> Answer:
            held = self._channel.take()
            call = getattr(held.calls, method)
            try:
                answer: Answer = await call(request, timeout=timeout_s, metadata=self._metadata)
                return answer
            except aio.AioRpcError as error:
                raise from_call(error, self.address, self.certificate_problem) from error
            finally:
                held.release()

        policy = self._retry if again else NO_RETRY
        return await with_retries(once, policy, self._clock, self._rng, timeout_s=self._timeout_s)


def _duration(seconds: float) -> Any:
    return duration_from_ns(round(seconds * NS_PER_S))
