"""Parts, credit, and the one result of an output."""

from headway.engine.request import Ending, Finish
from headway.telemetry.worker import ModelMetrics
from headway.v1 import types_pb2, worker_pb2
from headway.worker.session import Outbox
from headway.worker.stream import HELD_TOKENS, PendingStream


class Peer:
    """What the gateway's end of a session would see."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.held: list[bool] = []
        item = worker_pb2.BatchItem(item_id=7, request_id="r")
        message = worker_pb2.ExecuteBatch(batch_id=7, items=[item])
        self.stream = PendingStream(
            message,
            ModelMetrics(),
            0,
            deliver=self.outbox.put,
            parts=self.outbox,
            now_ns=lambda: 0,
        )
        self.stream.set_held = self.held.append

    def write(self, count: int, first: int = 0) -> None:
        for token in range(first, first + count):
            self.stream.on_output(f"{token} ", [token], [])

    def end(self, finish: Finish = Finish.STOP, written: int = 3) -> None:
        self.stream.on_end(Ending(finish, 4, 0, written, 1_000))

    async def messages(self) -> list[worker_pb2.SessionResponse]:
        self.outbox.close()
        taken = []
        while (message := await self.outbox.take()) is not None:
            taken.append(message)
        return taken


async def test_without_credit_all_is_in_the_result() -> None:
    peer = Peer()
    peer.write(3)
    peer.end()
    (message,) = await peer.messages()
    (item,) = message.result.items
    assert item.output.text == "0 1 2 "
    assert list(item.output.token_ids) == [0, 1, 2]
    assert item.output.finish_reason == types_pb2.FINISH_REASON_STOP
    assert (item.usage.prompt_units, item.usage.output_units) == (4, 3)
    assert (message.result.batch_id, message.result.device_ns, message.result.units) == (7, 1000, 7)


async def test_unsent_parts_of_an_output_join() -> None:
    peer = Peer()
    peer.stream.grant(1)
    peer.write(5)
    (message,) = await peer.messages()
    (part,) = message.parts.parts
    assert part.item_id == 7
    assert part.text == "0 1 2 3 4 "
    assert list(part.token_ids) == [0, 1, 2, 3, 4]


async def test_a_part_takes_credit_and_what_is_beyond_waits() -> None:
    peer = Peer()
    peer.stream.grant(1)
    peer.write(1)
    first = await peer.outbox.take()
    peer.write(2, first=1)
    assert first is not None
    assert [part.text for part in first.parts.parts] == ["0 "]
    peer.stream.grant(1)
    (second,) = await peer.messages()
    assert [part.text for part in second.parts.parts] == ["1 2 "]


async def test_a_reader_that_is_far_behind_holds_its_lane() -> None:
    peer = Peer()
    peer.stream.grant(1)
    peer.write(1)
    await peer.outbox.take()
    peer.write(HELD_TOKENS - 1, first=1)
    assert peer.held == []
    peer.write(1, first=HELD_TOKENS)
    assert peer.held == [True]
    peer.stream.grant(1)
    assert peer.held == [True, False]


async def test_a_session_that_is_not_read_holds_its_lanes() -> None:
    peer = Peer()
    peer.stream.grant(1)
    peer.write(3 * HELD_TOKENS)
    assert peer.held == [True]


async def test_an_output_that_nobody_reads_along_never_holds_its_lane() -> None:
    peer = Peer()
    peer.write(10 * HELD_TOKENS)
    assert peer.held == []


async def test_log_probabilities_are_in_the_result_too() -> None:
    peer = Peer()
    peer.stream.on_output("a", [1], [-0.5])
    peer.end(written=1)
    (message,) = await peer.messages()
    (tensor,) = message.result.items[0].output.tensors
    assert (tensor.name, list(tensor.shape)) == ("logprobs", [1, 1])


async def test_a_failure_says_why() -> None:
    peer = Peer()
    peer.stream.on_end(Ending(Finish.FAILED, 4, 0, 0, 0, error="out of memory"))
    (message,) = await peer.messages()
    (item,) = message.result.items
    assert item.status == worker_pb2.ITEM_STATUS_FAILED
    assert item.message == "out of memory"


async def test_it_is_answered_once() -> None:
    peer = Peer()
    peer.end()
    peer.stream.refuse(worker_pb2.ITEM_STATUS_CANCELLED, "")
    assert len(await peer.messages()) == 1


async def test_nobody_is_answered_after_it_was_abandoned() -> None:
    peer = Peer()
    peer.stream.abandon()
    peer.end()
    assert await peer.messages() == []


async def test_the_last_word_on_capacity_replaces_an_unsent_one() -> None:
    outbox = Outbox()
    for lanes in (3, 2, 1):
        outbox.put_capacity(worker_pb2.Capacity(free_lanes=lanes))
    first = await outbox.take()
    outbox.put_capacity(worker_pb2.Capacity(free_lanes=5))
    outbox.close()
    second = await outbox.take()
    assert first is not None and second is not None
    assert (first.capacity.free_lanes, second.capacity.free_lanes) == (1, 5)
    assert await outbox.take() is None
