"""The conformance suite: named checks, one behaviour each, for any backend, then the attempts to escape from it.

A check may name the guarantee that it needs; a backend that lists it in ``report.lacks`` is excused, and says so.
``python -m etude.environments.sandbox.conformance.suite BACKEND`` runs all and prints JSON:
name to ``ok``, ``excused: ...`` or ``failed: ...``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from . import checks_commands, checks_files, checks_isolation, checks_lifecycle, checks_limits, checks_saving
from .checking import NEEDS, Check, Opener, make_layers
from .escapes.run import ESCAPES, run_escapes

_MODULES = (checks_commands, checks_limits, checks_lifecycle, checks_isolation, checks_files, checks_saving)
CHECKS: dict[str, Check] = {
    name: function
    for module in _MODULES
    for name, function in vars(module).items()
    if inspect.iscoroutinefunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
"""Every public coroutine function of the modules of checks, by its name."""


async def run_check(name: str, opened: Opener) -> str:
    """Return ``ok``, ``excused: LABEL`` or ``failed: why``."""
    parameters = inspect.signature(CHECKS[name]).parameters
    try:
        async with AsyncExitStack() as stack:
            sandboxes = {key: await stack.enter_async_context(opened()) for key in parameters if key != "opened"}
            needed = NEEDS.get(name, "")
            if any(needed in sandbox.report.lacks for sandbox in sandboxes.values()):
                return f"excused: {needed}"
            await CHECKS[name](**sandboxes, **({"opened": opened} if "opened" in parameters else {}))
    except Exception as error:  # noqa: BLE001 - a check may fail in any way, and the verdict reports it
        return f"failed: {type(error).__name__}: {error}"
    return "ok"


async def run_all(backend: str, jobs: int = 4) -> dict[str, str]:
    """Run every check on one backend, ``jobs`` at a time, then every attempt to escape; return their verdicts."""
    turn = asyncio.Semaphore(jobs)

    async def run(name: str, opened: Opener) -> str:
        async with turn:
            return await run_check(name, opened)

    with tempfile.TemporaryDirectory(prefix="etude-check-") as folder:
        opened = Opener(backend, make_layers(Path(folder)))
        verdicts = dict(zip(CHECKS, await asyncio.gather(*(run(name, opened) for name in CHECKS)), strict=True))
    try:
        return verdicts | await run_escapes(backend)
    except Exception as error:  # noqa: BLE001 - as above
        return verdicts | dict.fromkeys(ESCAPES, f"failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    results = asyncio.run(run_all(sys.argv[1]))
    print(json.dumps(results, indent=1))
    sys.exit(any(result.startswith("failed") for result in results.values()))
