"""Known fault 34: a worker's new address, version or limits do not take effect."""

from tests.support.fleet import running_gateway, running_worker, text_request

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, types_pb2


async def test_fault_34_changed_worker() -> None:
    async with running_gateway(lease_seconds=60) as running:
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        # One that died, at an address where nobody answers; its lease is still alive.
        dead = fleet_pb2.RegisterRequest(
            worker_id="w1",
            instance_id="before",
            address="127.0.0.1:9",
            max_outstanding_batches=1,
            models=[types_pb2.ModelCard(model="sim", version="v1")],
        )
        lease = await stub.Register(dead, timeout=5)
        changed = {"max_outstanding_batches": 3, "version": "v2"}
        async with running_worker(running, runtime={"max_requests": 7}, **changed):
            listed = await running.control.ListReplicas(
                control_pb2.ListReplicasRequest(), timeout=5
            )
            (replica,) = listed.replicas
            assert replica.replica == "w1/sim/v2"
            assert replica.address != dead.address
            assert replica.max_outstanding_batches == 3
            card = running.gateway.catalog.models["sim"].versions["v2"].card
            assert card.batch_limits.max_requests == 7
            answer = await running.inference.Infer(text_request(version="v2"), timeout=5)
            assert (answer.replica, answer.version) == ("w1", "v2")
            heartbeats = stub.Heartbeat()
            await heartbeats.write(fleet_pb2.HeartbeatRequest(lease_id=lease.lease_id))
            assert not (await heartbeats.read()).lease_known
