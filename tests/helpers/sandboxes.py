"""A sandbox for the length of one action, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from etude.environments.sandbox import Layers, Limits, Sandbox, opened_sandbox

Result = TypeVar("Result")


def in_sandbox(
    layers: Layers,
    action: Callable[[Sandbox], Awaitable[Result]],
    limits: Limits = Limits(),
    backend: str = "auto",
) -> Result:
    """Open a sandbox, await the action on it, close it, and return the action's result."""

    async def run() -> Result:
        async with opened_sandbox(layers, limits, backend) as sandbox:
            return await action(sandbox)

    return asyncio.run(run())
