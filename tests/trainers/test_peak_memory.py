"""Peak memory of a divergence and of the measurements for a run's limits, in a process of their own.

It is that of one block of logits, for any vocabulary and number of rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "helpers" / "memory_probe.py"
SIZES = [(8192, 64), (1000, 512), (8192, 512), (64_000, 64), (64_000, 512)]
"""Vocabulary and rows; the first pair is one block of ``memory_probe``."""


def peaks(kind: str, sizes: list[tuple[int, int]]) -> list[float]:
    """Return the peak after each size minus that of a tiny one, in MiB."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), kind, json.dumps(sizes)]
    # Freed memory is returned to the system at once, so that earlier sizes are no part of a later peak.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    base, *measured = json.loads(done.stdout)
    return [peak - base for peak in measured]


def test_peak_of_the_fused_divergence_does_not_grow_with_the_logits() -> None:
    """The logits grow 62-fold; the small rest is the gradient of the head."""
    block, *larger = peaks("fused", SIZES)
    assert block > 0
    assert max(larger) < 1.6 * block


def test_complete_logits_need_many_times_the_peak() -> None:
    """Otherwise the measurement would not see logits at all."""
    (whole,) = peaks("whole", SIZES[-1:])
    assert whole > 20 * peaks("fused", SIZES)[-1]


def test_peak_of_top_k_does_not_grow_with_the_rows() -> None:
    block, larger = peaks("top_k", [(8192, 64), (8192, 1024)])
    assert larger < 1.6 * block


@pytest.mark.parametrize("kind", ["good_turns", "drift"])
def test_measurements_for_the_limits_never_need_complete_logits(kind: str) -> None:
    """They need two small models with that vocabulary, and a few blocks."""
    vocabulary, rows = SIZES[-1]
    (peak,) = peaks(kind, [(vocabulary, rows)])
    assert 0 < peak < vocabulary * rows * 4 / (1 << 20)
