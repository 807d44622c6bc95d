"""The conformance suite: named checks, one behaviour each, for any backend.

A check may name the guarantee that it needs; a backend that lists it in ``report.lacks`` is excused, and says so.
``python -m etude.environments.sandbox.conformance.suite BACKEND`` runs all and prints JSON:
name to ``ok``, ``excused: ...`` or ``failed: ...``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from . import checks_commands, checks_files, checks_isolation, checks_lifecycle, checks_limits, checks_saving
from .checking import CHECKS, NEEDS, SMALL, Opener, make_layers

__all__ = ["CHECKS", "NEEDS", "SMALL", "Opener", "make_layers", "run_all", "run_check"]
# Importing them registers their checks.
_MODULES = (checks_commands, checks_limits, checks_lifecycle, checks_isolation, checks_files, checks_saving)


async def run_check(name: str, opened: Opener) -> str:
    """Return ``ok``, ``excused: LABEL`` or ``failed: why``."""
    needs = NEEDS.get(name, "")
    try:
        if needs:
            async with opened() as sandbox:
                if needs in sandbox.report.lacks:
                    return f"excused: {needs}"
        await CHECKS[name](opened)
    except Exception as error:  # noqa: BLE001 - a check may fail in any way, and the verdict reports it
        return f"failed: {type(error).__name__}: {error}"
    return "ok"


async def run_all(backend: str, jobs: int = 4) -> dict[str, str]:
    """Run every check on one backend, ``jobs`` at a time, and return their verdicts."""
    turn = asyncio.Semaphore(jobs)

    async def run(name: str, opened: Opener) -> str:
        async with turn:
            return await run_check(name, opened)

    with tempfile.TemporaryDirectory(prefix="etude-check-") as folder:
        opened = Opener(backend, make_layers(Path(folder)))
        return dict(zip(CHECKS, await asyncio.gather(*(run(name, opened) for name in CHECKS)), strict=True))


if __name__ == "__main__":
    results = asyncio.run(run_all(sys.argv[1]))
    print(json.dumps(results, indent=1))
    sys.exit(any(result.startswith("failed") for result in results.values()))
