"""TLS and mTLS on every port, over real sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest
from tests.support.certificates import Authority, Files
from tests.support.fleet import (
    RunningGateway,
    running_gateway,
    running_worker,
    text_request,
)

from headway.client import BlockingClient, Client, ClientTls, ControlClient, GatewayUnreachable
from headway.v1 import fleet_pb2, fleet_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc

FLEET = "fleet.test"


@contextlib.asynccontextmanager
async def secure_fleet(
    authority: Authority, *, worker: dict[str, Any] | None = None, **gateway: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway and a worker that speak TLS on all ports; `gateway`, `worker`: more of tls."""
    ours = authority.issue("gateway", FLEET)
    theirs = authority.issue("worker", FLEET)
    trusted = grpc.ssl_channel_credentials(authority.ca_file.read_bytes())
    async with (
        running_gateway(tls=ours.settings(**gateway), credentials=trusted) as running,
        running_worker(running, wait=False, tls=theirs.settings(**(worker or {})), http_port=0),
    ):
        await running.until_serving()
        yield running


def trust(authority: Authority, shown: Files | None = None) -> ClientTls:
    if shown is None:
        return ClientTls(authority.ca_file)
    return ClientTls(authority.ca_file, shown.cert_file, shown.key_file)


async def peer_certificate(address: str, authority: Authority) -> bytes:
    """The certificate that a port shows to who connects now."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


async def test_a_request_is_served_over_tls_from_end_to_end(authority: Authority) -> None:
    async with secure_fleet(authority) as running:
        async with Client(running.addresses["data"], tls=trust(authority)) as client:
            answer = await client.infer(text_request(), timeout_s=5)
        assert answer.replica == "w1"
        async with ControlClient(running.addresses["control"], tls=trust(authority)) as control:
            state = await control.state()
        assert [replica.worker_id for replica in state.replicas] == ["w1"]


async def test_the_blocking_client_speaks_tls(authority: Authority) -> None:
    def call(address: str) -> str:
        with BlockingClient(address, tls=trust(authority)) as client:
            return client.infer(text_request(), timeout_s=5).replica

    async with secure_fleet(authority) as running:
        assert await asyncio.to_thread(call, running.addresses["data"]) == "w1"


@pytest.mark.parametrize("port", ["data", "control"])
async def test_plaintext_is_not_answered_on_a_tls_port(authority: Authority, port: str) -> None:
    async with secure_fleet(authority) as running:
        async with ControlClient(running.addresses[port], timeout_s=2) as control:
            with pytest.raises(GatewayUnreachable):
                await control.state()


async def test_a_gateway_of_another_authority_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "another authority")
    async with secure_fleet(authority) as running:
        async with Client(running.addresses["data"], tls=trust(stranger)) as client:
            with pytest.raises(GatewayUnreachable):
                await client.infer(text_request(), timeout_s=2)


async def test_metrics_are_served_over_https_with_the_certificates_expiry(
    authority: Authority,
) -> None:
    async with secure_fleet(authority) as running:
        host, _, port = running.addresses["http"].rpartition(":")
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
    (line,) = [row for row in text.splitlines() if row.startswith("headway_tls_certificate_exp")]
    assert 0 < float(line.split()[1]) < 86_400


class TestClientCertificates:
    async def test_a_port_that_requires_one_takes_only_those_of_the_authority(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        shown = authority.issue("caller")
        stranger = Authority(tmp_path / "stranger", "another authority").issue("caller")
        async with secure_fleet(authority, client_certs=["control"], fleet_name=FLEET,
                                worker={"fleet_name": FLEET}) as running:  # fmt: skip
            address = running.addresses["control"]
            async with ControlClient(address, tls=trust(authority, shown)) as control:
                assert (await control.state()).gateway.ready
            for tls in (trust(authority), trust(authority, stranger)):
                async with ControlClient(address, tls=tls, timeout_s=2) as control:
                    with pytest.raises(GatewayUnreachable):
                        await control.state()

    async def test_http_requires_one_where_set(self, authority: Authority) -> None:
        async with secure_fleet(authority, client_certs=["http"]) as running:
            host, _, port = running.addresses["http"].rpartition(":")
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
                if not await reader.read():
                    raise ConnectionResetError
            shown = authority.issue("prometheus")
            context.load_cert_chain(shown.cert_file, shown.key_file)
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert (await reader.read()).endswith(b"ok\n")
            writer.close()


class TestFleetByCertificate:
    """mTLS in place of a fleet token."""

    BOTH: ClassVar[dict[str, Any]] = {
        "client_certs": ["control"],
        "fleet_name": FLEET,
        "worker": {"client_certs": ["worker"], "fleet_name": FLEET},
    }

    async def test_gateway_and_worker_know_each_other_without_a_token(
        self, authority: Authority
    ) -> None:
        async with secure_fleet(authority, **self.BOTH) as running:
            answer = await running.inference.Infer(text_request(), timeout=5)
            assert answer.replica == "w1"

    async def test_an_operators_certificate_does_not_make_a_worker(
        self, authority: Authority
    ) -> None:
        shown = authority.issue("operator", "laptop.test")
        async with secure_fleet(authority, **self.BOTH) as running:
            async with secure_channel(running.addresses["control"], authority, shown) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await fleet_pb2_grpc.FleetServiceStub(channel).Register(
                        fleet_pb2.RegisterRequest(
                            worker_id="w2",
                            instance_id="i",
                            address="127.0.0.1:1",
                            models=[types_pb2.ModelCard(model="sim", version="v1")],
                        ),
                        timeout=5,
                    )
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "certificates carry fleet.test (tls.fleet_name)" in refused.value.details()

    async def test_a_stranger_gets_no_session_with_a_worker(self, authority: Authority) -> None:
        shown = authority.issue("operator", "laptop.test")
        async with secure_fleet(authority, **self.BOTH) as running:
            (address,) = [w.address for w in running.gateway.fleet.workers.values()]
            async with secure_channel(address, authority, shown) as channel:
                call = worker_pb2_grpc.WorkerServiceStub(channel).Session()
                greeting = worker_pb2.SessionRequest(greeting=worker_pb2.GatewayGreeting())
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call.write(greeting)  # which may come after the refusal
                    await call.read()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


class TestRotation:
    @pytest.mark.parametrize("port", ["data", "control", "http"])
    async def test_a_renewed_certificate_is_shown_to_who_connects_next(
        self, authority: Authority, port: str
    ) -> None:
        async with secure_fleet(authority) as running:
            before = await peer_certificate(running.addresses[port], authority)
            authority.issue("gateway", FLEET)
            while await peer_certificate(running.addresses[port], authority) == before:
                pass

    @pytest.mark.parametrize("port", ["worker", "http"])
    async def test_a_workers_ports_show_it_too(self, authority: Authority, port: str) -> None:
        async with running_gateway(insecure_no_auth=True) as running:
            tls = authority.issue("worker", FLEET).settings(ports=["worker", "http"])
            plain = running_worker(running, wait=False, tls=tls, http_port=0)
            async with plain as worker:
                before = await peer_certificate(worker.addresses[port], authority)
                authority.issue("worker", FLEET)
                while await peer_certificate(worker.addresses[port], authority) == before:
                    pass

    async def test_open_connections_and_streams_live_through_a_renewal(
        self, authority: Authority
    ) -> None:
        async with secure_fleet(authority) as running:
            async with Client(running.addresses["data"], tls=trust(authority)) as client:
                await client.infer(text_request(), timeout_s=5)
                before = await peer_certificate(running.addresses["data"], authority)
                authority.issue("gateway", FLEET)
                while await peer_certificate(running.addresses["data"], authority) == before:
                    await client.infer(text_request(), timeout_s=5)
                await client.infer(text_request(), timeout_s=5)

    async def test_a_broken_renewal_changes_nothing(self, authority: Authority) -> None:
        async with secure_fleet(authority) as running:
            before = await peer_certificate(running.addresses["data"], authority)
            (authority.ca_file.parent / "gateway.pem").write_text("half of a")
            rotating = running.gateway.tls.identity
            assert rotating is not None
            while rotating.num_refused == 0:
                assert await peer_certificate(running.addresses["data"], authority) == before
            assert rotating.generation == 1


@contextlib.asynccontextmanager
async def secure_channel(
    address: str, authority: Authority, shown: Files
) -> AsyncIterator[grpc.aio.Channel]:
    credentials = grpc.ssl_channel_credentials(
        authority.ca_file.read_bytes(), shown.key_file.read_bytes(), shown.cert_file.read_bytes()
    )
    async with grpc.aio.secure_channel(address, credentials) as channel:
        yield channel


async def test_plaintext_to_a_port_with_tls_names_the_options(authority: Authority) -> None:
    async with secure_fleet(authority) as running:
        async with Client(running.addresses["data"]) as client:
            with pytest.raises(GatewayUnreachable, match="--tls-ca"):
                await client.infer(text_request(), timeout_s=5)


async def test_tls_without_a_certificate_that_is_asked_for_names_the_options(
    authority: Authority,
) -> None:
    async with secure_fleet(authority, client_certs=["control"]) as running:
        async with ControlClient(running.addresses["control"], tls=trust(authority)) as control:
            with pytest.raises(GatewayUnreachable, match="--tls-cert"):
                await control.state()


async def test_a_certificate_of_another_authority_names_the_options(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "other", "another authority")
    async with secure_fleet(authority) as running:
        async with Client(running.addresses["data"], tls=trust(stranger)) as client:
            with pytest.raises(GatewayUnreachable, match="--tls-ca"):
                await client.infer(text_request(), timeout_s=5)


async def test_tls_to_a_plaintext_port_names_the_options(authority: Authority) -> None:
    async with running_gateway() as running:
        async with Client(running.addresses["data"], tls=trust(authority)) as client:
            with pytest.raises(GatewayUnreachable, match="--tls-ca"):
                await client.infer(text_request(), timeout_s=5)
