"""Ranks of a run: their numbers, and the collective calls by which all ranks reach the same decision.

A rank that stops alone leaves the others waiting for it, so every rank must make each collective call at the same
place. With one rank nothing is sent. Only the collective calls import torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
N = TypeVar("N", int, float)
E = TypeVar("E", bound=Exception)


def world_size() -> int:
    """Return the number of processes of this run, as torchrun sets it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Return the number of this process, as torchrun sets it."""
    return int(os.environ.get("RANK", "0"))


def gather_from_ranks(value: T) -> list[T]:
    """Return the value of every rank, in the order of the ranks. The value must be small and picklable."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return [value]
    values: list[T] = [value] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def sum_over_ranks(counts: Sequence[N]) -> list[N]:
    """Return the sum of each count over all ranks."""
    return [sum(column) for column in zip(*gather_from_ranks(list(counts)), strict=True)]


def first_over_ranks(value: T | None) -> T | None:
    """Return the value of the first rank that has one, the same on all ranks; None when no rank has one."""
    return next((other for other in gather_from_ranks(value) if other is not None), None)


def fail_on_all_ranks(action: Callable[[], T], failure: type[E]) -> T:
    """Return the result of ``action`` on this rank. Raise ``failure`` on every rank when it was raised on one."""
    results: list[T] = []
    error: E | None = None
    try:
        results.append(action())
    except failure as raised:
        error = raised
    message = first_over_ranks(None if error is None else str(error))
    if message is not None:
        raise error or failure(message)
    return results[0]


def leave_group() -> None:
    """Close the connections between the ranks, if there are any: a process that exits with open ones may abort."""
    if world_size() > 1:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()
