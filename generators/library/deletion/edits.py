"""Byte-exact edits of one file: spans with their replacement, applied together."""

from __future__ import annotations

from collections.abc import Iterable

from ...python.source import Span

Edit = tuple[Span, bytes]

MAX_NEWLINES = 3


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """``source`` with every edit made. An edit inside another is dropped; deletions that overlap are merged.

    Where whole lines go, no more than two blank lines are left.
    """
    kept, position = bytearray(), 0
    for (start, end), replacement in _disjoint(edits):
        kept += source[position:start] + replacement
        position = end
        if replacement or (kept and not kept.endswith(b"\n")):
            continue
        above = len(kept) - len(kept.rstrip(b"\n"))
        below = len(source[position:]) - len(source[position:].lstrip(b"\n"))
        allowed = MAX_NEWLINES if kept.strip() else 0
        position += min(below, max(0, above + below - allowed))
    return bytes(kept + source[position:])


def _disjoint(edits: Iterable[Edit]) -> list[Edit]:
    kept: list[Edit] = []
    for span, replacement in sorted(set(edits), key=lambda edit: (edit[0][0], -edit[0][1])):
        if not kept or span[0] >= kept[-1][0][1]:
            kept.append((span, replacement))
            continue
        (start, end), before = kept[-1]
        if span[1] > end:
            kept[-1] = ((start, span[1]), before or replacement)
    return kept


def items_without(source: bytes, items: list[Span], dropped: set[int], *, is_tuple: bool = False) -> list[Edit]:
    """Edits that take the ``dropped`` of comma-separated ``items`` out, each run with the comma that separates it."""
    if len(dropped) == len(items):
        end = items[-1][1]
        rest = source[end:].lstrip()
        if rest.startswith(b","):
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
    left = [number for number in range(len(items)) if number not in dropped]
    if is_tuple and len(left) == 1 and not source[items[-1][1] :].lstrip().startswith(b","):
        # One item without a comma would be no tuple any more.
        if left[0] == 0:
            return [((items[0][1], items[-1][1]), b",")]
        edits.append(((items[-1][1], items[-1][1]), b","))
    return edits
