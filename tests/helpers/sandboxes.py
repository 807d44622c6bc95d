"""Tools of tests that use sandboxes: one for the length of an action, and waiting for what other processes do."""

from __future__ import annotations

import asyncio
import time
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


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that must come true."""
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up, "still there"
        time.sleep(0.02)
