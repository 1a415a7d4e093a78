"""Renewed certificates of clients and of the fleet: the next call, or the next connection, shows
the new one; what has begun goes on."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from cryptography import x509
from tests.support.certificates import DAY, Authority, Files
from tests.support.fleet import (
    RunningGateway,
    running_gateway,
    running_worker,
    text_request,
)

from headway.client import (
    Client,
    ClientTls,
    ControlClient,
    GatewayUnreachable,
    ManyStream,
)
from headway.clock import wall_ns
from headway.errors import CertificateExpired, ConfigError
from headway.v1 import inference_pb2, inference_pb2_grpc, types_pb2

FLEET = "fleet.test"


class Witness(inference_pb2_grpc.InferenceServiceServicer):
    """A gateway that notes whose certificate each call showed, and answers "hold" when told."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.holding = asyncio.Event()
        self.released = asyncio.Event()
        self._writing = asyncio.Lock()

    async def Infer(self, request: Any, context: Any) -> Any:
        await self._see(request, context)
        return inference_pb2.InferResponse(output=types_pb2.Output(text=request.input.text))

    async def InferStream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._see(request.request, context)
        yield inference_pb2.InferStreamResponse()

    async def InferMany(self, requests: Any, context: Any) -> None:
        self._note(context)
        answers = [
            asyncio.ensure_future(self._answer(message, context)) async for message in requests
        ]
        await asyncio.gather(*answers)

    async def _answer(self, message: Any, context: Any) -> None:
        if message.request.input.text == "hold":
            await self._hold()
        response = inference_pb2.InferResponse()
        async with self._writing:  # one write at a time, as gRPC wants it
            await context.write(inference_pb2.InferManyResponse(id=message.id, response=response))

    async def _see(self, request: Any, context: Any) -> None:
        self._note(context)
        if request.input.text == "hold":
            await self._hold()

    async def _hold(self) -> None:
        self.holding.set()
        await self.released.wait()

    def _note(self, context: Any) -> None:
        (pem,) = context.auth_context()["x509_pem_cert"]
        self.shown.append(x509.load_pem_x509_certificate(pem).serial_number)


@contextlib.asynccontextmanager
async def witness(authority: Authority) -> AsyncIterator[tuple[str, Witness]]:
    """It asks for certificates."""
    files, seen = authority.issue("gateway"), Witness()
    server = grpc.aio.server()
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(seen, server)
    credentials = grpc.ssl_server_credentials(
        [(files.key_file.read_bytes(), files.cert_file.read_bytes())],
        files.ca_file.read_bytes(),
        require_client_auth=True,
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    try:
        await server.start()
        yield f"127.0.0.1:{port}", seen
    finally:
        seen.released.set()
        await server.stop(None)


def serial(files: Files) -> int:
    return x509.load_pem_x509_certificate(files.cert_file.read_bytes()).serial_number


def shows(files: Files) -> ClientTls:
    return ClientTls(files.ca_file, files.cert_file, files.key_file)


async def until_shown(call: Any, seen: Witness, wanted: int) -> None:
    """Calls until a certificate is shown; files are looked at five times a second."""
    async with asyncio.timeout(60):
        while seen.shown[-1:] != [wanted]:
            await call()


class TestClients:
    async def test_the_next_call_shows_the_renewed_certificate(self, authority: Authority) -> None:
        """A channel kept the one it was opened with, until that expired and no call got through."""
        async with witness(authority) as (address, seen):
            files = authority.issue("caller")
            first = serial(files)
            async with Client(address, tls=shows(files), num_channels=2) as client:
                for _ in range(3):
                    await client.infer(text_request(), timeout_s=30)
                assert seen.shown == [first] * 3
                second = serial(authority.issue("caller"))
                await until_shown(lambda: client.infer(text_request(), timeout_s=30), seen, second)
                seen.shown.clear()
                for _ in range(4):
                    await client.infer(text_request(), timeout_s=30)
                assert seen.shown == [second] * 4

    async def test_calls_that_have_begun_finish_on_the_old_one(self, authority: Authority) -> None:
        async with witness(authority) as (address, seen):
            files = authority.issue("caller")
            async with Client(address, tls=shows(files)) as client:
                old = asyncio.ensure_future(client.infer(text_request("hold"), timeout_s=30))
                await seen.holding.wait()
                second = serial(authority.issue("caller"))
                await until_shown(lambda: client.infer(text_request(), timeout_s=30), seen, second)
                assert not old.done()
                seen.released.set()
                assert (await old).output.text == "hold"

    async def test_streams_of_many_requests_too(self, authority: Authority) -> None:
        async with witness(authority) as (address, seen):
            files = authority.issue("caller")
            many = ManyStream(address, tls=shows(files))
            old = asyncio.ensure_future(many.infer(text_request("hold"), timeout_s=30))
            await seen.holding.wait()
            second = serial(authority.issue("caller"))
            await until_shown(lambda: many.infer(text_request(), timeout_s=30), seen, second)
            assert not old.done()
            seen.released.set()
            await old
            await many.close()

    async def test_broken_files_leave_the_last_good_one_and_are_told(
        self, authority: Authority
    ) -> None:
        async with witness(authority) as (address, seen):
            files = authority.issue("caller")
            first = serial(files)
            async with Client(address, tls=shows(files)) as client:
                await client.infer(text_request(), timeout_s=30)
                assert client.certificate_problem is None
                files.key_file.write_text("half of a")
                async with asyncio.timeout(60):
                    while client.certificate_problem is None:
                        await client.infer(text_request(), timeout_s=30)
                assert isinstance(client.certificate_problem, ConfigError)
                assert f"the key in {files.key_file} is not usable" in str(
                    client.certificate_problem
                )
                assert set(seen.shown) == {first}
                second = serial(authority.issue("caller"))
                await until_shown(lambda: client.infer(text_request(), timeout_s=30), seen, second)
                assert client.certificate_problem is None

    async def test_a_gateway_that_is_not_reached_is_told_with_the_problem(
        self, authority: Authority
    ) -> None:
        files = authority.issue("caller")
        async with Client("127.0.0.1:1", tls=shows(files)) as client:
            files.cert_file.write_text("half of a")
            async with asyncio.timeout(60):
                while client.certificate_problem is None:
                    with pytest.raises(GatewayUnreachable) as caught:
                        await client.infer(text_request(), timeout_s=1)
        with pytest.raises(GatewayUnreachable, match="certificate shown may be an old one: --tls-"):
            raise caught.value

    async def test_an_expired_one_without_a_successor_is_a_typed_error(
        self, authority: Authority
    ) -> None:
        """Nothing is sent; the next renewal mends it."""
        async with witness(authority) as (address, seen):
            files = authority.issue("caller", valid_for=DAY / 86_400)  # a second
            async with Client(address, tls=shows(files)) as client:
                async with asyncio.timeout(60):
                    while True:
                        try:
                            await client.infer(text_request(), timeout_s=30)
                        except CertificateExpired as error:
                            assert "was not renewed" in str(error)
                            assert str(files.cert_file) in str(error)
                            break
                        except GatewayUnreachable:
                            continue  # it expired between the check and the handshake
                second = serial(authority.issue("caller"))
                async with asyncio.timeout(60):
                    while second not in seen.shown:
                        with contextlib.suppress(CertificateExpired):
                            await client.infer(text_request(), timeout_s=30)

    async def test_the_control_client_follows_while_it_watches(self, authority: Authority) -> None:
        shown = authority.issue("operator")
        worker = authority.issue("worker", FLEET)
        async with secure_gateway(authority) as running:
            address = running.addresses["control"]
            async with ControlClient(address, tls=shows(shown)) as control:
                changes = control.watch(0.1)
                await anext(changes)
                before = serial(shown)
                assert serial(authority.issue("operator")) != before
                for _ in range(5):
                    await control.state()
                # The watch has not ended: it hears of the worker.
                async with running_worker(running, wait=False, tls=worker.settings(**WORKER)):
                    async for change in changes:
                        if change.state.replicas:
                            break
                await changes.aclose()


GATEWAY = {"client_certs": ["control"], "fleet_name": FLEET}
WORKER = {"client_certs": ["worker"], "fleet_name": FLEET}


@contextlib.asynccontextmanager
async def secure_gateway(
    authority: Authority, valid_for: datetime.timedelta = DAY
) -> AsyncIterator[RunningGateway]:
    """It asks workers and operators for certificates."""
    ours = authority.issue("gateway", FLEET, valid_for=valid_for)
    trusted = grpc.ssl_channel_credentials(authority.ca_file.read_bytes())
    tls = ours.settings(**GATEWAY)
    async with running_gateway(tls=tls, credentials=trusted) as running:
        yield running


class TestFleet:
    async def test_what_connects_anew_shows_the_renewed_certificates(
        self, authority: Authority
    ) -> None:
        """Both ways: what was shown first has expired by then."""
        soon = datetime.timedelta(seconds=8)
        worker = authority.issue("worker", FLEET, valid_for=soon)
        async with (
            secure_gateway(authority, valid_for=soon) as running,
            running_worker(running, wait=False, tls=worker.settings(**WORKER)),
        ):
            await running.until_serving()
            (member,) = running.gateway.fleet.workers.values()
            first = datetime.datetime.fromtimestamp(wall_ns() / 1e9, tz=datetime.UTC) + soon
            authority.issue("gateway", FLEET)
            authority.issue("worker", FLEET)
            while datetime.datetime.fromtimestamp(wall_ns() / 1e9, tz=datetime.UTC) < first:
                await running.inference.Infer(text_request(), timeout=5)
            # The gateway's session with the worker, and the worker's registration.
            member.session.restart()
            running.gateway.fleet.deregister(member.lease_id)
            await running.until_serving(serving=False)
            await running.until_serving()
            assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"
