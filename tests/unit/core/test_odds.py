"""What a request that was refused early is told of its chance."""

import heapq

from tests.unit.core.fleet import MS, Fleet

from headway._core import Admission, BatchOutcome, Reading, RefusalReason, Verdict

SECOND = 1_000 * MS


def overloaded() -> tuple[list[Reading], list[Verdict]]:
    """Readings of the admitted and verdicts on the others: 600 a second where 350 can be served.

    All alike: 100 units, within 600 ms, for 10 s; a batch takes 18 ms + 22 us a unit.
    """
    fleet = Fleet()
    fleet.replica(max_requests=32)
    admitted: list[Reading] = []
    refused: list[Verdict] = []
    running: list[tuple[int, int, int]] = []

    def start() -> None:
        fleet.core.expire(fleet.now)
        batch = fleet.core.form_batch(fleet.now, fleet.pool)
        if batch is not None:
            took = 18 * MS + 22_000 * batch.units
            heapq.heappush(running, (fleet.now + took, batch.id, took))

    for index in range(6_000):
        due = index * SECOND // 600
        while running and running[0][0] <= due:
            fleet.now, batch_id, took = heapq.heappop(running)
            fleet.core.complete(fleet.now, batch_id, BatchOutcome.OK, took)
            start()
        fleet.now = due
        answer = fleet.core.admit(
            due, fleet.tenant, fleet.model, -1, index, 100, 1, due + 600 * MS, 2, 1, 1.0
        )
        if isinstance(answer, Admission):
            admitted.append(answer.reading)
        else:
            refused.append(answer)
        start()
    return admitted, refused


def test_the_chance_is_told_with_the_one_that_was_asked_for() -> None:
    admitted, refused = overloaded()
    early = [each.reading for each in refused if each.reason == RefusalReason.OVERLOADED]
    assert len(early) > 1_000
    assert all(0 <= seen.chance < seen.wanted_chance < 1 for seen in early)
    assert all((seen.chance, seen.wanted_chance) == (0, 0) for seen in admitted)


def test_what_is_refused_leaves_no_room_empty_where_all_are_alike() -> None:
    admitted, _ = overloaded()
    # 32 in 18 + 70.4 ms: 362 a second.
    assert len(admitted) >= 0.97 * 10 * 362
