"""Chaos with a fixed seed: no fault gives a wrong score, loses a grade, or leaves anything behind."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from etude.benchmarks.chaos import make_tasks, run_chaos

SECONDS = float(os.environ.get("ETUDE_CHAOS_SECONDS", "180"))
"""Duration of the chaos; `python benchmarks/chaos.py` runs ten minutes."""


@pytest.mark.slow
def test_chaos_breaks_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:  # pytest's own folder is closed to the sandbox user
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("ETUDE_CACHE", str(folder / "cache"))
        tasks = make_tasks(folder / "tasks", seed=1)
        report = asyncio.run(run_chaos(tasks, folder, seconds=SECONDS, seed=1, players=4))
    print(report)
    assert not report.broken, "\n".join(report.broken)
    assert report.outcomes.get("graded", 0) >= 5
    kinds = {
        "dropped socket",
        "duplicate frame",
        "frame out of order",
        "garbage frames",
        "half-open socket",
        "slow reader",
        "kill -9 of a process below the server",
        "kill -9 of the server, and its restart",
    }
    assert kinds <= {name for name, count in report.injected.items() if count}
