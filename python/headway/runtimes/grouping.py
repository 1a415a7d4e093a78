"""Which rows of a batch to pad together."""

from collections.abc import Sequence


def group_by_length(lengths: Sequence[int], overhead_tokens: float) -> list[list[int]]:
    """Splits rows into groups, each padded to its longest, such that the least is computed.

    Minimizes the sum over groups of overhead_tokens + rows * longest, exactly: some optimal
    split consists of runs of the rows sorted by length, and a dynamic program tries them all.
    O(n^2) for n distinct lengths; 32 rows take about 0.1 ms, a fraction of one row's execution.

    Args:
      lengths: tokens of each row, >= 1.
      overhead_tokens: fixed cost of one execution, in the tokens that take as long; >= 0.

    Returns:
      Indices of `lengths`, each in one group; longest group first.
    """
    if not lengths:
        return []
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    ranked = [lengths[index] for index in order]
    # A group begins where a length begins: equal rows are never worth separating.
    starts = [at for at, length in enumerate(ranked) if at == 0 or length != ranked[at - 1]]
    cost = [0.0] * (len(starts) + 1)
    ends = [0] * len(starts)
    bounds = [*starts, len(ranked)]
    for first in range(len(starts) - 1, -1, -1):
        longest = ranked[starts[first]]
        # Of two splits that cost the same, the one with fewer executions: hence -end.
        cost[first], last = min(
            (overhead_tokens + longest * (bounds[end] - bounds[first]) + cost[end], -end)
            for end in range(first + 1, len(bounds))
        )
        ends[first] = -last
    groups = []
    first = 0
    while first < len(starts):
        end = ends[first]
        groups.append(order[bounds[first] : bounds[end]])
        first = end
    return groups
