"""Plan of a step: which rank orthogonalizes which matrices.

Each matrix has one owner among all ranks that hold parts of it, replicas included, so nothing is computed twice.
Matrices that one shard holds whole (experts sharded by expert, heads within a shard) are computed there, by one of its
replicas: nothing is sent between shards. A matrix that is cut goes to the rank with the least work so far. Matrices of
one shape form buckets. Plans are computed from the same facts on every rank, so that all of them agree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..blocks import ROWS, Blocks, Run
from ..coefficients import newton_schulz_flops
from .shards import Box, Layout, Ranks

BUCKET = 2**25
"""Largest number of elements that a rank orthogonalizes at once, unless one matrix is larger."""


@dataclass(frozen=True)
class Unit:
    """Equal matrices beside each other in one parameter, with one owner."""

    index: int
    """Place of the parameter in the list."""
    box: Box
    """Part of the parameter that holds them."""
    run: Run
    """The blocks, along one dimension, that the box holds."""
    number: int
    """Number of matrices."""
    home: int | None
    """Shard that holds all of them; None when the one matrix is cut."""
    replica: int
    shard: int
    """Place of the owner."""


@dataclass(frozen=True)
class Bucket:
    """Units of one shape whose matrices are exchanged together."""

    shape: tuple[int, int]
    ranks: Ranks
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class _Piece:
    """Unit without an owner."""

    index: int
    box: Box
    run: Run
    number: int
    home: int | None
    held: Tensor | None
    """Elements of a cut matrix on each shard [S]."""


def make_buckets(
    shapes: Sequence[Sequence[int]],
    blocks: Sequence[Blocks],
    spread: Sequence[Layout],
    groups: Sequence[int] | None = None,
    limit: int = BUCKET,
) -> list[Bucket]:
    """Return the buckets of parameters of these shapes, largest matrices first.

    Parameters of different ``groups``, as numbers, never share a bucket.
    """
    keyed: dict[tuple[int, int, int, Ranks], list[_Piece]] = defaultdict(list)
    for index, (shape, division, layout) in enumerate(zip(shapes, blocks, spread, strict=True)):
        for run in division.runs(shape):
            for piece in _pieces(index, shape, run, layout, limit):
                keyed[(groups[index] if groups else 0, *run.shape(shape), layout.ranks)].append(piece)
    load = torch.zeros(
        1 + max((max(map(max, layout.ranks.table)) for layout in spread), default=0), dtype=torch.float64
    )
    buckets = []
    for (_, *shape, ranks), pieces in sorted(keyed.items(), key=lambda item: -newton_schulz_flops(*item[0][1:3])):
        rows, columns = shape
        units = _with_owners(pieces, ranks, newton_schulz_flops(rows, columns), load)
        buckets += [Bucket((rows, columns), ranks, part) for part in _within(units, rows * columns, limit)]
    return buckets


def _pieces(index: int, shape: Sequence[int], run: Run, layout: Layout, limit: int) -> Iterator[_Piece]:
    """Yield the blocks of a run: those that a shard holds whole in boxes, those that are cut one by one."""
    stack = shape[0] if len(shape) == 3 else 1
    cut = {(expert, block) for expert in range(stack) for block in range(run.number)}
    for home, box in enumerate(layout.boxes):
        experts, blocks = _held(box, shape, run)
        if not (experts and blocks):
            continue
        cut -= {(expert, block) for expert in experts for block in blocks}
        size = math.prod(run.shape(shape))
        parts = max(len(layout.ranks.table), -(-size * len(experts) * len(blocks) // limit))
        for some_experts, some_blocks in _divided(experts, blocks, parts):
            yield _piece(index, shape, run, some_experts, some_blocks, home, layout)
    for expert, block in sorted(cut):
        yield _piece(index, shape, run, range(expert, expert + 1), range(block, block + 1), None, layout)


def _held(box: Box, shape: Sequence[int], run: Run) -> tuple[range, range]:
    """Return the experts and the blocks of a run that a box holds whole."""
    across = -1 if run.dim == ROWS else -2
    nothing = range(0), range(0)
    if box[across] != (0, shape[across]):
        return nothing
    experts = range(*box[0]) if len(shape) == 3 else range(1)
    start, stop = box[run.dim]
    first = max(-(-(start - run.start) // run.size), 0)
    last = min((stop - run.start) // run.size, run.number)
    return (experts, range(first, last)) if first < last else nothing


def _divided(experts: range, blocks: range, parts: int) -> Iterator[tuple[range, range]]:
    """Yield a grid of experts and blocks in at most so many equal parts, along its longer side."""
    if len(experts) >= len(blocks):
        yield from ((part, blocks) for part in _chunks(experts, parts))
    else:
        yield from ((experts, part) for part in _chunks(blocks, parts))


def _chunks(numbers: range, parts: int) -> Iterator[range]:
    parts = min(parts, len(numbers))
    edges = [numbers.start + len(numbers) * k // parts for k in range(parts + 1)]
    return (range(first, stop) for first, stop in zip(edges, edges[1:], strict=False))


def _piece(
    index: int, shape: Sequence[int], run: Run, experts: range, blocks: range, home: int | None, layout: Layout
) -> _Piece:
    some = run.part(blocks.start, blocks.stop)
    box = [(0, length) for length in shape]
    box[run.dim] = (some.start, some.start + some.size * some.number)
    if len(shape) == 3:
        box[0] = (experts.start, experts.stop)
    return _Piece(
        index, tuple(box), some, len(experts) * len(blocks), home, _held_by(box, layout) if home is None else None
    )


def _held_by(box: Sequence[tuple[int, int]], layout: Layout) -> Tensor:
    """Return the elements of a box on each shard [S]."""
    bounds, (first, stop) = _bounds(layout.boxes), torch.tensor(box).unbind(1)
    sides = torch.minimum(bounds[..., 1], stop) - torch.maximum(bounds[..., 0], first)
    return sides.clamp(min=0).prod(1)


@lru_cache(maxsize=64)
def _bounds(boxes: tuple[Box, ...]) -> Tensor:
    """Return boxes as a tensor [S, dimensions, 2]."""
    return torch.tensor(boxes)


def _with_owners(pieces: Sequence[_Piece], ranks: Ranks, cost: int, load: Tensor) -> list[Unit]:
    """Return the units: large pieces first, each to the rank with the least work among those that may own it.

    Among ranks with equal work, the one that holds most of the piece gets it.
    """
    order = sorted(range(len(pieces)), key=lambda place: (pieces[place].home is None, -pieces[place].number, place))
    owners, numbers = {}, torch.tensor(ranks.table)
    for place in order:
        piece = pieces[place]
        if piece.held is None:
            assert piece.home is not None
            replica, shard = int(load[numbers[:, piece.home]].argmin()), piece.home
        else:
            loads = load[numbers]
            most = torch.where(loads == loads.min(), piece.held, -1).argmax()
            replica, shard = divmod(int(most), numbers.size(1))
        load[numbers[replica, shard]] += cost * piece.number
        owners[place] = replica, shard
    return [
        Unit(piece.index, piece.box, piece.run, piece.number, piece.home, *owners[place])
        for place, piece in enumerate(pieces)
    ]


def _within(units: Sequence[Unit], size: int, limit: int) -> Iterator[tuple[Unit, ...]]:
    """Yield the units in parts in which no owner has more elements than the limit, unless one unit has."""
    part: list[Unit] = []
    held: dict[tuple[int, int], int] = defaultdict(int)
    for unit in units:
        owner = unit.replica, unit.shard
        if part and held[owner] and held[owner] + unit.number * size > limit:
            yield tuple(part)
            part, held = [], defaultdict(int)
        part.append(unit)
        held[owner] += unit.number * size
    if part:
        yield tuple(part)
