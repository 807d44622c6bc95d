"""Muon against AdamW in reinforcement learning: tuning, intervals, and the tables of the recorded rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etude.research.muon_rl import compare


def row(arm: str, rate: float, seed: int, *solved: float) -> dict[str, Any]:
    shares = [{"solved": value, "missed": 1 - value, "turns": 0.0} for value in solved]
    held = {"train": shares, "eval": [{**each, "solved": each["solved"] + 0.1} for each in shares]}
    return {"arm": arm, "rate": rate, "seed": seed, "held": held, "episodes": [32 * n for n in range(len(solved))]}


def test_shares_are_means_over_both_splits() -> None:
    one = row("sparse_tenth", 1e-4, 1, 0.2, 0.4, 0.8)
    assert compare.final("solved")(one) == pytest.approx(0.85)
    assert compare.over_run("solved")(one) == pytest.approx((0.25 / 2 + 0.45 + 0.85 / 2) / 2)


def test_grid_grows_for_both_arms_while_the_best_rate_of_one_is_an_edge() -> None:
    made: list[tuple[str, float]] = []
    rows: list[dict[str, Any]] = []

    def run(arm: str, rate: float, seed: int) -> dict[str, Any]:
        if (arm, rate) not in made:
            made.append((arm, rate))
            rows.append(row(arm, rate, seed, 0.0, rate if arm == "muon_tenth" else 0.5 - abs(rate - 3e-4)))
        return rows[made.index((arm, rate))]

    assert compare.tune(run, rows) == {"sparse_tenth": 3e-4, "muon_tenth": 3e-2}
    rates = {arm: sorted(rate for name, rate in made if name == arm) for arm in compare.ARMS.values()}
    assert rates["sparse_tenth"] == rates["muon_tenth"] == [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
    assert compare.extended(compare.RATES, [1e-4, 3e-4]) == (3e-5, *compare.RATES)
    assert compare.extended(compare.RATES, [1e-3, 3e-4]) == compare.RATES


def test_differences_are_paired_by_seed() -> None:
    left = [row("muon_tenth", 1e-3, seed, 0.0, value) for seed, value in ((2, 0.6), (1, 0.4))]
    right = [row("sparse_tenth", 1e-3, seed, 0.0, value) for seed, value in ((1, 0.3), (2, 0.5), (3, 0.0))]
    mean, low, high = compare.paired(left, right, compare.final("solved"))
    assert (mean, low, high) == pytest.approx((0.1, 0.1, 0.1))
    assert compare.interval([0.0, 1.0]) == pytest.approx((0.5, 0.5 - 12.706 / 2, 0.5 + 12.706 / 2))


def test_tables_are_those_of_the_rows(root: Path) -> None:
    folder = root / "research" / "muon_rl"
    tied = root / "research" / "error_turns" / "results" / "next.jsonl"
    command = [sys.executable, str(folder / "compare.py"), "--out", str(folder), "--print", "--tied", str(tied)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (folder / "RESULTS.md").read_text()
    tables = [line for line in printed.splitlines() if line]
    assert len(tables) >= 20
    assert all(line in page for line in tables)


def test_counted_runs_have_the_registered_length_and_the_rate_that_tuning_chose(root: Path) -> None:
    rows = [json.loads(line) for line in (root / "research/muon_rl/rows.jsonl").read_text().splitlines()]
    for arm in compare.ARMS.values():
        tuned = sorted(row["rate"] for row in rows if (row["arm"], row["seed"]) == (arm, compare.TUNING_SEED))
        assert set(tuned) >= set(compare.RATES)
        counted = [row for row in rows if row["arm"] == arm and row["seed"] != compare.TUNING_SEED]
        assert {row["rate"] for row in counted} == {compare.best_rate(tuned, rows, arm)}
        assert sorted(row["seed"] for row in counted)[:3] == [1, 2, 3]
    assert {tuple(row["episodes"]) for row in rows} == {(0, 128, 256, 384)}
    assert len({row["base"] for row in rows}) == 1
