"""Pending updates: computed once, when they are needed, and dropped after their last bucket."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import Tensor

from etude.trainers.muon import ROWS, Blocks
from etude.trainers.muon.sharding.exchange_plan import make_buckets
from etude.trainers.muon.sharding.pending import PendingUpdates
from etude.trainers.muon.sharding.routes import Route, make_route
from etude.trainers.muon.sharding.shards import layouts


def _routes(blocks: list[Blocks], shapes: list[tuple[int, int]]) -> list[Route]:
    spread = layouts([torch.empty(shape) for shape in shapes])
    return [make_route(bucket, spread) for bucket in make_buckets(shapes, blocks, spread)]


def test_updates_live_from_their_first_bucket_to_their_last() -> None:
    """The second parameter has blocks of two shapes, so it is in two buckets; the first shares one of them."""
    routes = _routes([Blocks(), Blocks("part", ROWS, (8, 4))], [(8, 6), (12, 6)])
    assert [{unit.index for unit in route.bucket.units} for route in routes] == [{0, 1}, {1}]
    computed: list[int] = []
    alive: list[weakref.ref[Tensor]] = []

    def compute(place: int) -> Tensor:
        computed.append(place)
        value = torch.zeros(1)
        alive.append(weakref.ref(value))
        return value

    updates = PendingUpdates(compute, 3, routes)
    first = updates[0], updates[1], updates[1]
    assert first[1] is first[2] and computed == [0, 1]
    del first
    updates.release(routes[0])
    gc.collect()
    assert [reference() is not None for reference in alive] == [False, True]
    updates.release(routes[1])
    gc.collect()
    assert alive[1]() is None
    updates.finish()
    assert computed == [0, 1, 2], "a parameter that no bucket needed here still gets its momentum"
