"""Tools of tests that use sandboxes: one for the length of an action, and waiting for what other processes do."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from etude.environments.sandbox import Layers, Limits, Sandbox, opened_sandbox
from etude.errors import SandboxError

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


async def a_forked_child_is_refused(sandbox: Any) -> None:
    """Check that a forked process cannot use its parent's sandbox, and that the parent still can."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(sandbox.exec("true"))
        except SandboxError:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert (await sandbox.exec("echo ok")).output == b"ok\n"
