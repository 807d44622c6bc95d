"""Byte-exact edits of one file: spans with their replacement, applied together."""

from __future__ import annotations

from collections.abc import Iterable

from ...python.source import Span

Edit = tuple[Span, bytes]

MAX_NEWLINES = 3


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Return ``source`` with every edit made.

    An edit inside another is dropped; overlapping deletions are merged. Where whole lines are deleted, at most two
    blank lines remain.
    """
    result, position = bytearray(), 0
    for (start, end), replacement in _disjoint(edits):
        result += source[position:start] + replacement
        position = end
        if replacement or (result and not result.endswith(b"\n")):
            continue
        above = len(result) - len(result.rstrip(b"\n"))
        below = len(source[position:]) - len(source[position:].lstrip(b"\n"))
        allowed = MAX_NEWLINES if result.strip() else 0
        position += min(below, max(0, above + below - allowed))
    return bytes(result + source[position:])


def _disjoint(edits: Iterable[Edit]) -> list[Edit]:
    result: list[Edit] = []
    for span, replacement in sorted(set(edits), key=lambda edit: (edit[0][0], -edit[0][1])):
        if not result or span[0] >= result[-1][0][1]:
            result.append((span, replacement))
            continue
        (start, end), before = result[-1]
        if span[1] > end:
            result[-1] = ((start, span[1]), before or replacement)
    return result


def items_without(source: bytes, items: list[Span], dropped: set[int], *, is_tuple: bool = False) -> list[Edit]:
    """Return edits that drop items (by number) from a comma-separated list, each run with the comma next to it."""
    if len(dropped) == len(items):
        end = items[-1][1]
        if source[end:].lstrip().startswith(b","):
            end = source.index(b",", end) + 1
        return [((items[0][0], end), b"")]
    edits: list[Edit] = []
    first = 0
    while first < len(items):
        last = first
        while last < len(items) and last in dropped:
            last += 1
        if last > first:
            at_end = last == len(items)
            start = items[first - 1][1] if at_end else items[first][0]
            edits.append(((start, items[-1][1] if at_end else items[last][0]), b""))
        first = last + 1
    remaining = [number for number in range(len(items)) if number not in dropped]
    if is_tuple and len(remaining) == 1 and not source[items[-1][1] :].lstrip().startswith(b","):
        # Parentheses around one item are a tuple only with a comma.
        if remaining[0] == 0:
            return [((items[0][1], items[-1][1]), b",")]
        edits.append(((items[-1][1], items[-1][1]), b","))
    return edits
