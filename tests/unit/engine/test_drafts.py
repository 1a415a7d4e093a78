import pytest

from headway.engine.drafts import Acceptance, propose


@pytest.mark.parametrize(
    ("tokens", "num_drafts", "expected"),
    [
        ([1, 2, 3, 9, 1, 2], 3, [3, 9, 1]),
        ([1, 2, 3, 9, 1, 2], 1, [3]),
        ([1, 2, 3, 4], 3, []),
        # The longest end wins over a later, shorter one.
        ([5, 1, 2, 7, 8, 1, 2, 9, 5, 1, 2], 1, [7]),
        # Among equal ones, the last.
        ([1, 2, 7, 1, 2, 8, 1, 2], 1, [8]),
        ([1, 1, 1], 2, [1]),
        ([1], 2, []),
        ([], 2, []),
        ([1, 2, 1, 2], 0, []),
    ],
)
def test_drafts_are_what_followed_before(
    tokens: list[int], num_drafts: int, expected: list[int]
) -> None:
    assert propose(tokens, num_drafts) == expected


def test_chances_begin_hopeful_and_learn() -> None:
    acceptance = Acceptance(3)
    assert acceptance.chances() == [0.75, 0.75, 0.75]
    for _ in range(40):
        acceptance.observe(3, 1)
    first, second, third = acceptance.chances()
    assert first > 0.95
    assert second < 0.15
    assert third == 0.75  # never reached, so nothing is known of it


def test_lanes_teach_the_model_and_new_lanes_start_from_it() -> None:
    shared = Acceptance(2)
    lane = Acceptance(2, shared)
    for _ in range(50):
        lane.observe(2, 0)
    assert Acceptance(2, shared).chances()[0] < 0.1
