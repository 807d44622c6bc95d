"""NorMuon: rows of an orthogonal factor are divided by their running size (Li et al. 2025, arXiv:2510.05491).

With O [r, c] and v [r], v <- beta v + (1 - beta) mean(O^2) over a row; O / sqrt(v) is then scaled to the Frobenius norm
of O. The second moment of a parameter is sharded like the parameter, so every row must be on one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed

from .blocks import ROWS, Blocks
from .sharding.exchange import Result
from .sharding.exchange_plan import Unit
from .sharding.routes import Route
from .sharding.shards import part

EPS = 1e-8


def second_moment(parameter: Any, blocks: Blocks) -> Tensor:
    """Return zeros [..., M, K] for a parameter [..., M, N]: one number for each row of each matrix.

    K is the number of matrices beside each other along the columns. Raise ValueError for rows on several shards.
    """
    columns = 1 if blocks.dim == ROWS else max(len(blocks.sizes), 1)
    placements = getattr(parameter, "placements", ())
    if any(placement.is_shard(parameter.ndim - 1) for placement in placements):
        raise ValueError("NorMuon needs whole rows on each shard; shard another dimension, or set neuron_beta to None")
    shape = (*parameter.shape[:-1], columns)
    if not placements:
        return torch.zeros(shape, dtype=torch.float32, device=parameter.device)
    from torch.distributed.tensor import DTensor

    held = parameter.to_local()
    zeros = torch.zeros((*held.shape[:-1], columns), dtype=torch.float32, device=held.device)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        zeros, parameter.device_mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride
    )


def normalize(
    results: Sequence[Result], moments: Sequence[Tensor], route: Route, beta: float, device: torch.device
) -> list[Result]:
    """Return the results with normalized rows. ``moments`` are the own parts of the second moments."""
    changed = []
    for result, moment in zip(results, moments, strict=True):
        values = _by_matrix(result.update.float(), result.part.unit)
        rows = _moment_of(result, moment)
        rows.lerp_(values.square().mean(-1), 1 - beta)
        changed.append((result, values, values / (rows.sqrt() + EPS).unsqueeze(-1)))
    new = []
    for (result, _, scaled), (before, after) in zip(changed, _norms(changed, route, device), strict=True):
        factor = _of_matrix((before / after.clamp(min=EPS)).sqrt(), result.part.unit, scaled)
        update = (scaled * factor).reshape(result.update.shape).to(result.update.dtype)
        new.append(replace(result, update=update))
    return new


def _by_matrix(update: Tensor, unit: Unit) -> Tensor:
    """Return values [..., rows, K, c]; K is 1 for blocks along the rows."""
    if unit.run.dim == ROWS:
        return update.unsqueeze(-2)
    return update.unflatten(-1, (-1, unit.run.size))


def _moment_of(result: Result, moment: Tensor) -> Tensor:
    """Return the view of the second moment that belongs to a result, [..., rows, K]."""
    run, box, origin = result.part.unit.run, result.part.box, result.part.origin
    first, count = (0, 1) if run.dim == ROWS else (run.first, run.number)
    return part(moment, (*box[:-1], (first, first + count)), (*origin[:-1], (0, moment.size(-1))))


def _sums(values: Tensor, result: Result) -> Tensor:
    """Return the sum of squares of each matrix, [..., K] or, for blocks along the rows, [..., blocks]."""
    unit, rows = result.part.unit, values.square().sum(-1)
    if unit.run.dim == ROWS:
        size = unit.run.size if unit.home is not None else rows.size(-2)
        return rows.squeeze(-1).unflatten(-1, (-1, size)).sum(-1)
    return rows.sum(-2)


def _of_matrix(factor: Tensor, unit: Unit, scaled: Tensor) -> Tensor:
    """Return factors of matrices in a shape that broadcasts over [..., rows, K, c]."""
    if unit.run.dim == ROWS:
        return factor.repeat_interleave(scaled.size(-3) // factor.size(-1), dim=-1).unsqueeze(-1).unsqueeze(-1)
    return factor.unsqueeze(-2).unsqueeze(-1)


def _norms(
    changed: Sequence[tuple[Result, Tensor, Tensor]], route: Route, device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """Return the sums of squares before and after, for each result; those of cut matrices over all shards."""
    sums = [(_sums(values, result), _sums(scaled, result)) for result, values, scaled in changed]
    if not route.is_cut:
        return sums
    place = {unit: number for number, unit in enumerate(unit for unit in route.bucket.units if unit.home is None)}
    table = torch.zeros(len(place), 2, dtype=torch.float32, device=device)
    numbers = [place.get(result.part.unit) for result, _, _ in changed]
    for number, pair in zip(numbers, sums, strict=True):
        if number is not None:
            table[number] = torch.stack([squares.sum() for squares in pair])
    distributed.all_reduce(table, group=route.bucket.ranks.shard_group)
    return [
        pair if number is None else (table[number, 0].expand_as(pair[0]), table[number, 1].expand_as(pair[1]))
        for number, pair in zip(numbers, sums, strict=True)
    ]
