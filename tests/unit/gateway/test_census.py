"""Which gateways of a store live, by counts that rise."""

from headway.gateway.census import Census

SECOND = 1_000_000_000


def test_a_gateway_alone_is_one_whatever_the_store_says() -> None:
    census = Census("me")
    assert census.take(0, {}) == 1
    assert census.take(SECOND, {"me": 1}) == 1


def test_one_that_is_seen_counts_until_it_was_silent_for_5_s() -> None:
    census = Census("me")
    assert census.take(0, {"me": 1, "other": 7}) == 2
    assert census.take(4 * SECOND, {"me": 2, "other": 7}) == 2
    assert census.take(5 * SECOND, {"me": 3, "other": 7}) == 1
    assert census.take(6 * SECOND, {"me": 4, "other": 8}) == 2, "it is back"


def test_the_other_clock_does_not_matter() -> None:
    # Only whether a count rose is looked at; another gateway may be hours ahead.
    census = Census("me")
    for second in range(20):
        assert census.take(second * SECOND, {"me": second, "other": 10**9 + second}) == 2


def test_rows_that_are_gone_are_not_kept() -> None:
    census = Census("me")
    census.take(0, {"other": 1, "third": 1})
    assert census.take(SECOND, {"third": 2}) == 2
    assert census.take(2 * SECOND, {"other": 1, "third": 3}) == 3


def test_what_was_silent_for_ten_minutes_may_be_forgotten() -> None:
    census = Census("me")
    census.take(0, {"other": 1, "third": 1})
    census.take(599 * SECOND, {"other": 1, "third": 2})
    assert census.forgotten(599 * SECOND) == []
    assert census.forgotten(600 * SECOND) == ["other"]
