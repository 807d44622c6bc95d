"""Which lines of a text stand in an earlier version of it too, in the same order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

Matches = list[tuple[int, int]]


def kept_lines(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Return the index in ``before`` of each line of ``after`` that was retained, by its index there, from 0.

    Lines that occur once in both anchor the comparison, and runs of equal lines grow from them and from both ends. The
    time grows with the number of lines, and not with its square.
    """
    retained: dict[int, int] = {}
    ends = [(-1, -1), *_anchors(before, after), (len(before), len(after))]
    for old, new in ends[1:-1]:
        retained[new] = old
    for (low_old, low_new), (high_old, high_new) in zip(ends, ends[1:], strict=False):
        old, new = low_old + 1, low_new + 1
        while old < high_old and new < high_new and before[old] == after[new]:
            retained[new] = old
            old, new = old + 1, new + 1
        last_old, last_new = high_old - 1, high_new - 1
        while last_old >= old and last_new >= new and before[last_old] == after[last_new]:
            retained[last_new] = last_old
            last_old, last_new = last_old - 1, last_new - 1
    return retained


def _anchors(before: Sequence[str], after: Sequence[str]) -> Matches:
    """Return the indexes of the lines that occur once in both texts, as many as stand in the same order."""
    in_before, in_after = Counter(before), Counter(after)
    place = {line: index for index, line in enumerate(before) if in_before[line] == 1}
    pairs = [(place[line], index) for index, line in enumerate(after) if in_after[line] == 1 and line in place]
    lasts: list[int] = []  # the smallest last index in ``before`` of a rising run of each length
    numbers: list[int] = []
    links: list[int] = []
    for number, (old, _) in enumerate(pairs):
        at = bisect_left(lasts, old)
        links.append(numbers[at - 1] if at else -1)
        if at == len(lasts):
            lasts.append(old)
            numbers.append(number)
        else:
            lasts[at], numbers[at] = old, number
    chosen: Matches = []
    number = numbers[-1] if numbers else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = links[number]
    return chosen[::-1]
