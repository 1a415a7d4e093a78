"""Known fault 36: the first version to register is the canary, and gets everything."""

from tests.support.fleet import running_gateway, running_worker, text_request

SPLIT = {"sim": {"split": {"stable": 0.9, "canary": 0.1}}}


async def test_fault_36_first_canary() -> None:
    async with (
        running_gateway(models=SPLIT) as running,
        running_worker(running, worker_id="first", version="canary"),
        running_worker(running, worker_id="second", version="stable"),
    ):
        versions = [
            (await running.inference.Infer(text_request(session_key=f"{n}"), timeout=5)).version
            for n in range(300)
        ]
        # 30 of 300 expected, with a standard deviation of 5.2.
        assert 10 <= versions.count("canary") <= 50
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="first", version="v2"),
        running_worker(running, worker_id="second", version="v1"),
    ):
        # Nothing was said of a split: the lowest version has all of it, whoever came first.
        for number in range(20):
            request = text_request(session_key=f"{number}")
            assert (await running.inference.Infer(request, timeout=5)).version == "v1"
