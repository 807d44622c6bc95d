"""Work on many items at a time, up to a limit, such as the episodes of a run."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


async def at_once(
    items: Iterable[Item],
    jobs: int,
    work: Callable[[Item], Awaitable[Result]],
    count: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """Do the work on every item, ``jobs`` items at a time, and return the results in order.

    ``count`` is called with the number of finished items, first with 0. The first error cancels the others and is
    raised itself.
    """
    gate, numbers = asyncio.Semaphore(jobs), itertools.count(1)
    count(0)

    async def one(item: Item) -> Result:
        async with gate:
            result = await work(item)
            count(next(numbers))
            return result

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in running]
