"""Whatever happens in whatever order: each batch is answered once, and nothing stays behind."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.worker.devices import MS, Asker, HandRuntime, hosted, item, statuses

from headway.errors import RuntimeFailure
from headway.testing import ManualClock
from headway.worker.batch import PendingBatch
from headway.worker.device import Device

Step = tuple[str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "cancel one", "cancel all", "abandon", "finish", "fail", "wait", "settle"]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


async def run(history: list[Step], max_batches: int) -> None:
    clock = ManualClock()
    runtime = HandRuntime()
    asker = Asker(clock, hosted(runtime))
    device = Device(clock, max_batches=max_batches)
    batches: list[PendingBatch] = []
    abandoned: set[int] = set()
    for action, choice in history:
        if action == "submit":
            members = [item(10 * len(batches) + n, remaining_ms=3 * choice) for n in range(3)]
            batch = asker.batch(len(batches), *members)
            batches.append(batch)
            device.submit(batch)
        elif action in ("cancel one", "cancel all", "abandon") and batches:
            batch = batches[choice % len(batches)]
            if action == "abandon":
                answered = {a.result.batch_id for a in asker.answers if a.HasField("result")}
                answered |= {a.busy.batch_id for a in asker.answers if a.HasField("busy")}
                if batch.message.batch_id not in answered:
                    abandoned.add(batch.message.batch_id)
                device.abandon(batch)
            else:
                one = [batch.message.items[choice % 3].item_id]
                device.cancel(batch, one if action == "cancel one" else [])
        elif action in ("finish", "fail") and runtime.ends and not runtime.ends[-1].done():
            runtime.finish() if action == "finish" else runtime.fail(RuntimeFailure("broke"))
        elif action == "wait":
            await clock.advance(choice * MS)
        else:
            await clock.settle()
        assert device.num_batches <= max_batches
    while device.num_batches:
        await clock.settle()
        if runtime.ends and not runtime.ends[-1].done():
            runtime.finish()
    answers = Counter(
        answer.result.batch_id if answer.HasField("result") else answer.busy.batch_id
        for answer in asker.answers
    )
    ids = {batch.message.batch_id for batch in batches}
    assert answers == Counter(ids - abandoned)
    for result in asker.results:
        members = {each.item_id for each in batches[result.batch_id].message.items}
        assert statuses(result).keys() == members
    executed = [text for given in runtime.given for text in given]
    assert len(set(executed)) == len(executed)


@settings(max_examples=300, deadline=None)
@given(steps, st.integers(1, 3))
def test_every_batch_is_answered_once(history: list[Step], max_batches: int) -> None:
    # Known faults 20 and 23: cancellations that race with the start of an execution, in any number.
    asyncio.run(run(history, max_batches))
