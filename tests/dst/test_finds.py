"""The simulation finds what it is for: each of these breaks the product on purpose."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from tests.dst.run import run_seed

from headway.gateway import dispatch
from headway.gateway.dispatch import Dispatcher
from headway.gateway.path import RequestPath
from headway.gateway.timer import DeadlineTimer
from headway.worker.batch import PendingBatch
from headway.worker.session import GatewaySession

MOST_SEEDS = 30


def first_failure() -> str:
    """What the first seed that fails says; "" if none does."""
    reports = (run_seed(seed) for seed in range(MOST_SEEDS))
    return next((report.failure for report in reports if report.failure), "")


def late_timer(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, at_ns: original(self, at_ns + 30_000_000)


def deaf(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: None


def first_member_only(original: Callable[..., Any]) -> Callable[..., Any]:
    def match(flight: Any, result: Any) -> Any:
        """Takes all that came for an answer, whosever it is."""
        return list(result.items), []

    return match


def runs_all(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any, now_ns: int) -> Any:
        self.executing = {item.item_id: item.input for item in self.message.items}
        return list(self.executing.values())

    return begin


BROKEN = [
    ("deadlines are answered late", DeadlineTimer, "arm", late_timer, "too late"),
    ("busy answers are lost", Dispatcher, "on_busy", deaf, ""),
    ("lost sessions are not noticed", Dispatcher, "on_lost", deaf, ""),
    ("workers run what was taken back", PendingBatch, "begin", runs_all, "runs what"),
    ("workers hear no cancellation", GatewaySession, "_cancel", deaf, ""),
    ("members of others are taken for answers", dispatch, "match", first_member_only, ""),
    ("callers that leave are not noticed", RequestPath, "cancel", deaf, ""),
    ("unanswered batches keep their slot", Dispatcher, "give_up_overdue", deaf, "batches left"),
]


@pytest.fixture(params=BROKEN, ids=lambda each: each[0])
def broken(request: pytest.FixtureRequest) -> Iterator[str]:
    _, where, name, change, told = request.param
    with mock.patch.object(where, name, change(getattr(where, name))):
        yield told


def test_what_is_broken_on_purpose_is_found(broken: str) -> None:
    failure = first_failure()
    assert failure, f"{MOST_SEEDS} seeds found nothing"
    assert broken in failure
