"""Peak memory of a divergence, in a process of its own: a block's, whatever the vocabulary and the number of rows; and
of what the limits of a run are measured with.
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
"""Vocabulary and rows; the first is one block of ``memory_probe``."""


def grown(kind: str, sizes: list[tuple[int, int]]) -> list[float]:
    """The peak after each size, over that of a tiny one."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), kind, json.dumps(sizes)]
    # Every block of memory goes back when it is freed: what is left of earlier sizes is no part of a peak.
    given = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": str(SCRIPT.parents[1])}
    base, *found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=given).stdout)
    return [peak - base for peak in found]


def test_the_peak_is_flat_in_vocabulary_times_rows() -> None:
    """62 times the logits; the little that comes on top is the head's gradient."""
    block, *larger = grown("fused", SIZES)
    assert block > 0
    assert max(larger) < 1.6 * block


def test_whole_logits_would_need_many_times_that() -> None:
    """Else the measurement would not see logits at all."""
    (whole,) = grown("whole", SIZES[-1:])
    assert whole > 20 * grown("fused", SIZES)[-1]


def test_top_k_is_flat_in_rows() -> None:
    block, larger = grown("top_k", [(8192, 64), (8192, 1024)])
    assert larger < 1.6 * block


@pytest.mark.parametrize("kind", ["good_turns", "drift"])
def test_what_a_run_is_watched_with_never_holds_whole_logits(kind: str) -> None:
    """Two small models of that vocabulary come on top of a few blocks."""
    vocabulary, rows = SIZES[-1]
    (grew,) = grown(kind, [(vocabulary, rows)])
    assert 0 < grew < vocabulary * rows * 4 / (1 << 20)
