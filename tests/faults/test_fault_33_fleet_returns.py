"""Known fault 33: after a restart of the gateway, or a silence, workers do not come back."""

from tests.support.fleet import running_gateway, running_worker, text_request, until_replica

from headway.v1 import control_pb2


async def test_fault_33_fleet_returns() -> None:
    async with running_gateway(lease_seconds=0.5) as old:
        control_port = int(old.addresses["control"].rsplit(":", 1)[1])
        async with running_worker(old):
            # A silent worker's lease ends on the gateway's side; its next heartbeat hears of it.
            (known,) = old.gateway.fleet.workers.values()
            known.expires_at_ns = 0
            old.gateway.fleet.reap()
            listed = await old.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
            assert list(listed.replicas) == []
            await until_replica(old, "w1/sim/v1")
            assert (await old.inference.Infer(text_request(), timeout=5)).replica == "w1"
            await old.process.stop()
            async with running_gateway(control_port=control_port) as new:
                await until_replica(new, "w1/sim/v1")
                assert (await new.inference.Infer(text_request(), timeout=5)).replica == "w1"
