"""What a gateway may say on a session, and what it hears."""

import pytest
from tests.unit.worker.devices import CANCELLED, MS, OK, HandRuntime, hosted, item, statuses

from headway.errors import InvalidRequest, Unauthenticated
from headway.testing import ManualClock
from headway.v1 import worker_pb2
from headway.worker.device import Device
from headway.worker.session import MAX_UNSENT, GatewaySession

Request = worker_pb2.SessionRequest


class Line:
    """A session, its device, and everything the gateway has heard."""

    def __init__(self, *, max_batches: int = 1, token: str | None = None) -> None:
        self.clock = ManualClock()
        self.runtime = HandRuntime()
        self.device = Device(self.clock, max_batches=max_batches)
        self.session = GatewaySession(
            device=self.device,
            models=(hosted(self.runtime),),
            clock=self.clock,
            worker_id="w1",
            instance_id="i1",
            fleet_token=token,
        )

    def greet(self, token: str = "") -> None:
        greeting = worker_pb2.GatewayGreeting(gateway_id="g1", fleet_token=token)
        self.session.receive(Request(greeting=greeting))

    def execute(self, batch_id: int, *item_ids: int, handle: int = 0) -> None:
        message = worker_pb2.ExecuteBatch(
            batch_id=batch_id, model_handle=handle, items=[item(each) for each in item_ids]
        )
        self.session.receive(Request(execute=message))

    async def heard(self) -> list[worker_pb2.SessionResponse]:
        """All that is ready to be sent; closes the session."""
        self.session.outbox.close()
        messages = []
        while (message := await self.session.outbox.take()) is not None:
            messages.append(message)
        return messages


def kinds(messages: list[worker_pb2.SessionResponse]) -> list[str | None]:
    return [message.WhichOneof("message") for message in messages]


async def test_a_greeting_is_answered_with_who_and_what() -> None:
    line = Line()
    line.greet()
    (message,) = await line.heard()
    greeting = message.greeting
    assert (greeting.worker_id, greeting.instance_id) == ("w1", "i1")
    assert [(m.handle, m.card.model, m.card.version) for m in greeting.models] == [(0, "m", "v1")]
    assert greeting.capacity.free_slots == 1


@pytest.mark.parametrize("given", ["", "wrong"])
async def test_a_wrong_token_is_refused(given: str) -> None:
    line = Line(token="right")
    with pytest.raises(Unauthenticated, match="fleet_token is not the fleet's"):
        line.greet(given)
    assert await line.heard() == []


async def test_the_right_token_is_taken() -> None:
    line = Line(token="right")
    line.greet("right")
    assert kinds(await line.heard()) == ["greeting"]


def first_execute(line: Line) -> None:
    line.execute(1, 1)


def greet_twice(line: Line) -> None:
    line.greet()
    line.greet()


def say_nothing(line: Line) -> None:
    line.greet()
    line.session.receive(Request())


def name_a_batch_twice(line: Line) -> None:
    line.greet()
    line.execute(1, 1)
    line.execute(1, 2)


def name_a_member_twice(line: Line) -> None:
    line.greet()
    line.execute(1, 5, 5)


def send_no_members(line: Line) -> None:
    line.greet()
    line.execute(1)


def name_an_unknown_model(line: Line) -> None:
    line.greet()
    line.execute(1, 1, handle=3)


@pytest.mark.parametrize(
    ("act", "field", "part"),
    [
        (first_execute, "message", "begins with execute; send greeting first"),
        (greet_twice, "message", "greeting in a session that was greeted"),
        (say_nothing, "message", "of no kind"),
        (name_a_batch_twice, "execute.batch_id", "1 is in hand already"),
        (name_a_member_twice, "execute.items", "an item_id twice"),
        (send_no_members, "execute.items", "is empty; send at least one member"),
        (name_an_unknown_model, "execute.model_handle", "3 is unknown; the greeting lists 0 to 0"),
    ],
)
async def test_breaches_of_the_protocol(act: object, field: str, part: str) -> None:
    assert callable(act)
    with pytest.raises(InvalidRequest, match=part) as caught:
        act(Line())
    assert caught.value.field == field


async def test_a_batch_id_may_be_used_again_once_answered() -> None:
    line = Line()
    line.greet()
    for _ in range(2):
        line.execute(1, 1)
        await line.clock.settle()
        line.runtime.finish()
        await line.clock.settle()
    assert kinds(await line.heard()) == ["greeting", "result", "result"]


async def test_who_was_turned_away_hears_when_there_is_room() -> None:
    line = Line()
    line.greet()
    line.execute(1, 1)
    line.execute(2, 2)
    await line.clock.settle()
    line.runtime.finish()
    await line.clock.settle()
    messages = await line.heard()
    # Before any answer, at which whoever was served would send the next.
    assert kinds(messages) == ["greeting", "busy", "capacity", "result"]
    assert messages[2].capacity.free_slots == 1
    assert messages[2].capacity.free_in_ns == 0


async def test_who_was_not_turned_away_hears_nothing_more() -> None:
    line = Line()
    line.greet()
    line.execute(1, 1)
    await line.clock.settle()
    line.runtime.finish()
    await line.clock.settle()
    assert kinds(await line.heard()) == ["greeting", "result"]


async def test_cancelling_what_is_over_or_unknown_does_nothing() -> None:
    line = Line()
    line.greet()
    line.execute(1, 1)
    await line.clock.settle()
    line.runtime.finish()
    await line.clock.settle()
    for batch_id in (1, 99):
        cancel = worker_pb2.CancelItems(batch_id=batch_id)
        line.session.receive(Request(cancel=cancel))
    line.execute(2, 1, 2)
    line.session.receive(Request(cancel=worker_pb2.CancelItems(batch_id=2, item_ids=[7, 1])))
    await line.clock.settle()
    line.runtime.finish()
    await line.clock.settle()
    messages = await line.heard()
    assert statuses(messages[1].result) == {1: OK}
    assert statuses(messages[2].result) == {1: CANCELLED, 2: OK}


async def test_a_lost_session_takes_its_work_with_it() -> None:
    line = Line(max_batches=2)
    line.greet()
    line.execute(1, 1)
    line.execute(2, 2)
    await line.clock.settle()
    line.session.lose()
    await line.clock.settle()
    assert line.runtime.stopped == 1
    assert line.runtime.given == [["text 1"]]
    assert line.device.num_batches == 0


async def test_a_half_closed_session_ends_once_all_is_answered() -> None:
    line = Line()
    line.greet()
    line.execute(1, 1)
    line.session.half_close()
    await line.clock.settle()
    line.runtime.finish()
    taken = [await line.session.outbox.take() for _ in range(3)]
    assert [message and message.WhichOneof("message") for message in taken] == [
        "greeting",
        "result",
        None,
    ]


async def test_an_error_is_raised_after_what_was_said_before_it() -> None:
    line = Line()
    line.greet()
    line.session.outbox.close(InvalidRequest("no"))
    line.session.tell_capacity()
    assert await line.session.outbox.take() is not None
    with pytest.raises(InvalidRequest, match="no"):
        await line.session.outbox.take()


async def test_a_gateway_that_does_not_read_is_not_read_either() -> None:
    line = Line()
    line.greet()
    line.execute(1, 1)
    for batch_id in range(2, MAX_UNSENT + 1):
        assert not line.session.outbox.congested
        line.execute(batch_id, batch_id)  # answered busy
    assert line.session.outbox.congested
    await line.clock.advance(5 * MS)
    for _ in range(MAX_UNSENT // 2 + 1):
        await line.session.outbox.take()
    assert not line.session.outbox.congested
