"""Fault 58: control-plane or store look-ups on the request path."""

from tests.support.fleet import running_gateway, running_worker, text_request


async def test_fault_58_store_on_the_path() -> None:
    """Requests are answered by a gateway whose store has never been there."""
    store = {"url": "postgresql://nobody@127.0.0.1:1/headway", "timeout_seconds": 1}
    async with running_gateway(store=store) as running, running_worker(running):
        assert not running.gateway.state.read().gateway.store.up
        for _ in range(20):
            assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"
