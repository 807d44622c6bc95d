"""Routes: for one bucket and one rank, what is sent where. They are computed once, when the plan is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .exchange_plan import Bucket, Unit
from .shards import Box, Layout, overlap, volume


@dataclass(frozen=True)
class Part:
    """Part of a unit that one shard holds."""

    unit: Unit
    box: Box
    """Part of the parameter."""
    origin: Box
    """Part of the parameter that this rank holds."""

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return volume(self.box)


@dataclass(frozen=True)
class Route:
    """What one rank sends and receives for a bucket."""

    bucket: Bucket
    owned: tuple[Part, ...]
    """Units that this rank orthogonalizes, each as one part."""
    outgoing: tuple[tuple[Part, ...], ...]
    """Own parts of cut units, for each shard [S] of the own replica that owns them."""
    incoming: tuple[tuple[Part, ...], ...]
    """Parts of own cut units, for each shard [S] that holds them."""
    replicas: tuple[tuple[Part, ...], ...]
    """Parts of the own shard, for each replica [R] whose ranks own them."""

    @property
    def is_cut(self) -> bool:
        """Return whether a matrix must be sent between shards."""
        return any(unit.home is None for unit in self.bucket.units)


def make_route(bucket: Bucket, spread: Sequence[Layout]) -> Route:
    """Return the route of this rank. ``spread`` has the layout of each parameter."""
    ranks = bucket.ranks
    shards, replicas = range(len(ranks.table[0])), range(len(ranks.table))

    def parts(units: Sequence[Unit], shard: int) -> tuple[Part, ...]:
        held = []
        for unit in units:
            boxes = spread[unit.index].boxes
            box = overlap(unit.box, boxes[shard])
            if box is not None:
                held.append(Part(unit, box, boxes[ranks.shard]))
        return tuple(held)

    row = [unit for unit in bucket.units if unit.replica == ranks.replica]
    owned = [unit for unit in row if unit.shard == ranks.shard]
    cut = [unit for unit in owned if unit.home is None]
    cut_of: dict[int, list[Unit]] = {shard: [] for shard in shards}
    of_replica: dict[int, list[Unit]] = {replica: [] for replica in replicas}
    for unit in bucket.units:
        of_replica[unit.replica].append(unit)
        if unit.replica == ranks.replica and unit.home is None:
            cut_of[unit.shard].append(unit)
    return Route(
        bucket,
        tuple(Part(unit, unit.box, spread[unit.index].boxes[ranks.shard]) for unit in owned),
        tuple(parts(cut_of[shard], ranks.shard) for shard in shards),
        tuple(parts(cut, shard) for shard in shards),
        tuple(parts(of_replica[replica], ranks.shard) for replica in replicas),
    )
