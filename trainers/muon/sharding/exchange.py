"""Exchange of matrices: cut matrices travel to their owners, orthogonal factors travel back, packed and asynchronously.

For one bucket: ``send`` packs the parts of cut matrices and starts one all-to-all among shards; ``receive`` returns the
own matrices as a batch; ``give_back`` starts the way back; ``spread`` starts to copy the results to the other replicas;
``finish`` returns every part of a result that this rank needs. A step has several buckets under way, so that
communication of one happens during the Newton-Schulz iteration of another. All ranks call them in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from ..blocks import to_batch, to_region
from .pending import PendingUpdates
from .routes import Part, Route
from .shards import Box, part


@dataclass(frozen=True)
class Result:
    """Part of an orthogonal factor that belongs to this rank's shard."""

    part: Part
    update: Tensor
    """Values, with the shape of the part's box."""


class Exchange:
    """Way of one bucket's matrices to their owners and back.

    Args:
        route: what this rank sends and receives.
        dtype: type of the values that travel.
        device: where they are.
    """

    def __init__(self, route: Route, dtype: torch.dtype, device: torch.device) -> None:
        self.route = route
        self._dtype, self._device = dtype, device
        self._work: Any = None
        self._sent: Tensor | None = None
        self._received: Tensor | None = None
        self._results: dict[tuple[int, Box], Result] = {}

    def send(self, tensors: PendingUpdates) -> None:
        """Start to send parts of cut matrices. ``tensors`` are the own parts of all parameters, by their place."""
        if self.route.is_cut:
            rows = self.route.outgoing
            values = [_values(piece, tensors) for row in rows for piece in row]
            self._all_to_all(values, _sizes(rows), _sizes(self.route.incoming), self.route.bucket.ranks.shard_group)

    def receive(self, tensors: PendingUpdates) -> Tensor:
        """Return the matrices that this rank owns, [B, r, c], in the type that travels."""
        regions = {
            piece.unit: self._empty(piece.box) if piece.unit.home is None else _values(piece, tensors)
            for piece in self.route.owned
        }
        if self.route.is_cut:
            for piece, values in self._arrived([piece for row in self.route.incoming for piece in row]):
                part(regions[piece.unit], piece.box, piece.unit.box).copy_(values)
        batches = [to_batch(region, unit.run.dim, unit.run.size) for unit, region in regions.items()]
        if not batches:
            return torch.empty(0, *self.route.bucket.shape, dtype=self._dtype, device=self._device)
        return torch.cat([batch.to(self._dtype) for batch in batches])

    def give_back(self, factors: Tensor) -> None:
        """Start to send the factors of the own matrices [B, r, c] to the shards that hold parts of them."""
        numbers = [piece.unit.number for piece in self.route.owned]
        regions = {}
        for piece, batch in zip(self.route.owned, factors.split(numbers) if numbers else [], strict=True):
            regions[piece.unit] = to_region(batch, _shape(piece.box), piece.unit.run.dim)
            if piece.unit.home is not None:
                self._keep(piece, regions[piece.unit])
        if self.route.is_cut:
            rows = self.route.incoming
            values = [part(regions[piece.unit], piece.box, piece.unit.box) for row in rows for piece in row]
            self._all_to_all(values, _sizes(rows), _sizes(self.route.outgoing), self.route.bucket.ranks.shard_group)

    def spread(self) -> None:
        """Collect what came back, and start to copy the results of this replica's owners to the other replicas."""
        if self.route.is_cut:
            for piece, values in self._arrived([piece for row in self.route.outgoing for piece in row]):
                self._keep(piece, values)
        ranks = self.route.bucket.ranks
        if ranks.replica_group is None:
            return
        updates = [self._results[piece.unit.index, piece.box].update for piece in self.route.replicas[ranks.replica]]
        sizes = _sizes(self.route.replicas)
        if len(set(sizes)) == 1:
            self._sent = self._packed(updates)
            self._received = self._empty(((0, sum(sizes)),))
            gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)  # new in torch 2.13
            self._work = gather(_bytes(self._received), _bytes(self._sent), group=ranks.replica_group, async_op=True)
        else:
            self._all_to_all(updates * len(sizes), [sizes[ranks.replica]] * len(sizes), sizes, ranks.replica_group)

    def finish(self) -> list[Result]:
        """Return the parts of all factors that belong to this rank's shard, in the same order on every replica."""
        every = [piece for row in self.route.replicas for piece in row]
        if self.route.bucket.ranks.replica_group is not None:
            for piece, values in self._arrived(every):
                self._keep(piece, values)
        results = [self._results[piece.unit.index, piece.box] for piece in every]
        self._results = {}
        return results

    def _keep(self, piece: Part, values: Tensor) -> None:
        self._results[piece.unit.index, piece.box] = Result(piece, values)

    def _empty(self, box: Box) -> Tensor:
        return torch.empty(_shape(box), dtype=self._dtype, device=self._device)

    def _packed(self, values: Sequence[Tensor]) -> Tensor:
        if not values:
            return self._empty(((0, 0),))
        return torch.cat([piece.reshape(-1).to(self._dtype) for piece in values])

    def _all_to_all(self, values: Sequence[Tensor], sent: Sequence[int], received: Sequence[int], group: Any) -> None:
        """Start one all-to-all; ``sent`` and ``received`` count elements for each rank of the group."""
        size = self._dtype.itemsize
        self._sent = self._packed(values)  # must live until the work is done
        self._received = self._empty(((0, sum(received)),))
        self._work = distributed.all_to_all_single(
            _bytes(self._received),
            _bytes(self._sent),
            [count * size for count in received],
            [count * size for count in sent],
            group=group,
            async_op=True,
        )

    def _arrived(self, parts: Sequence[Part]) -> Iterator[tuple[Part, Tensor]]:
        """Wait for the values of these parts, and yield each with its values."""
        assert self._work is not None and self._received is not None
        self._work.wait()
        values = self._received.split([piece.size for piece in parts]) if parts else []
        self._work = self._received = self._sent = None
        return ((piece, some.view(_shape(piece.box))) for piece, some in zip(parts, values, strict=True))


def _values(piece: Part, tensors: PendingUpdates) -> Tensor:
    return part(tensors[piece.unit.index], piece.box, piece.origin)


def _sizes(rows: Sequence[Sequence[Part]]) -> list[int]:
    return [sum(piece.size for piece in row) for row in rows]


def _shape(box: Box) -> list[int]:
    return [stop - start for start, stop in box]


def _bytes(values: Tensor) -> Tensor:
    """Return a view of values as bytes, which every backend can send."""
    return values.view(torch.uint8)
