"""Blocks: how a parameter is divided into the matrices that are orthogonalized one by one.

A parameter [M, N] is one matrix, or a row of matrices beside each other along its rows (query heads, fused projections)
or columns (heads of the output projection). A parameter [E, M, N] is a stack of E such matrices (experts). Equal blocks
that are neighbours form a *run*, which is one batch of matrices and one view of the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

ROWS, COLUMNS = -2, -1


@dataclass(frozen=True)
class Blocks:
    """Division of a parameter [M, N] or [E, M, N] into matrices."""

    kind: str = "matrix"
    """What one block is, for people: "matrix", "head", "expert" or "part"."""
    dim: int = ROWS
    """Dimension along which the sizes follow each other, ROWS or COLUMNS."""
    sizes: tuple[int, ...] = ()
    """Size of each block along ``dim``; empty for a single block of any size."""

    def check(self, shape: Sequence[int]) -> None:
        """Raise ValueError unless a parameter of this shape can be divided so."""
        if len(shape) not in (2, 3):
            raise ValueError(
                f"a parameter of shape {tuple(shape)} is neither a matrix nor a stack of matrices; use AdamW"
            )
        if self.dim not in (ROWS, COLUMNS):
            raise ValueError(f"dim must be {ROWS} (rows) or {COLUMNS} (columns), got {self.dim}")
        if self.sizes and (min(self.sizes) < 1 or sum(self.sizes) != shape[self.dim]):
            raise ValueError(f"blocks of {sum(self.sizes)} in all do not fill dimension {self.dim} of {tuple(shape)}")

    def count(self, shape: Sequence[int]) -> int:
        """Return the number of matrices of a parameter of this shape."""
        return max(len(self.sizes), 1) * (shape[0] if len(shape) == 3 else 1)

    def runs(self, shape: Sequence[int]) -> Iterator[Run]:
        """Yield the runs of a parameter of this shape, in order."""
        sizes = self.sizes or (shape[self.dim],)
        start = first = 0
        while first < len(sizes):
            last = first
            while last < len(sizes) and sizes[last] == sizes[first]:
                last += 1
            yield Run(self.dim, start, sizes[first], last - first, first)
            start, first = start + sizes[first] * (last - first), last


@dataclass(frozen=True)
class Run:
    """Neighbouring blocks of equal size along one dimension."""

    dim: int
    start: int
    """Index of the first row or column."""
    size: int
    """Rows or columns of one block."""
    number: int
    """Number of blocks, for each matrix of a stack."""
    first: int
    """Place of the first block among all blocks of the parameter."""

    def part(self, first: int, stop: int) -> Run:
        """Return the run of the blocks ``first`` to ``stop`` of this one."""
        return Run(self.dim, self.start + first * self.size, self.size, stop - first, self.first + first)

    def shape(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the rows and columns of one block in a parameter of this shape."""
        return (self.size, shape[-1]) if self.dim == ROWS else (shape[-2], self.size)


def to_batch(region: Tensor, dim: int, size: int) -> Tensor:
    """Return the blocks of a region as a batch [B, r, c]. A region is a part of a parameter that holds whole blocks.

    It is a view where strides allow one.
    """
    if dim == ROWS:
        return region.reshape(-1, size, region.size(-1))
    stacked = region if region.ndim == 3 else region.unsqueeze(0)
    divided = stacked.unflatten(-1, (-1, size))
    return divided.transpose(1, 2).reshape(-1, stacked.size(1), size)


def to_region(batch: Tensor, shape: Sequence[int], dim: int) -> Tensor:
    """Return a region of this shape from its blocks [B, r, c]; the inverse of ``to_batch``."""
    if dim == ROWS:
        return batch.reshape(tuple(shape))
    stack = shape[0] if len(shape) == 3 else 1
    return batch.unflatten(0, (stack, -1)).transpose(1, 2).reshape(tuple(shape))
