"""When a run stops by itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etude.trainers.recipe import Safety
from etude.trainers.safety import STOPPED, KillSwitch, verdict

LIMITS = Safety(kl_to_base=0.5, teacher_drift=0.1, hack_rate=0.2, dollars=10, dollars_per_hour=100, hours=2)


@pytest.mark.parametrize(
    ("logs", "limit"),
    [
        ({"loss": math.nan}, "nan"),
        ({"loss": 0.1, "grad_norm": math.inf}, "nan"),
        ({"kl_good_turns": 0.51}, "kl_to_base"),
        ({"kl_good_turns": math.nan}, "kl_to_base"),
        ({"teacher_drift": 0.2}, "teacher_drift"),
        ({"episodes/hack_rate": 0.25}, "hack_rate"),
        ({"cost/usd": 10.1}, "dollars"),
        ({"cost/hours": 2.1}, "hours"),
    ],
)
def test_each_limit_stops(logs: dict[str, Any], limit: str) -> None:
    stop = verdict(7, logs, LIMITS)
    assert stop is not None and (stop.step, stop.limit) == (7, limit)


def test_at_a_limit_or_without_one_the_run_goes_on() -> None:
    fine = {"loss": 0.1, "kl_good_turns": 0.5, "episodes/hack_rate": 0.2, "cost/hours": 2.0}
    assert verdict(1, fine, LIMITS) is None
    off = Safety(teacher_drift=0, hack_rate=0)
    assert verdict(1, {"teacher_drift": 9.0, "episodes/hack_rate": 1.0, "cost/usd": 1e9}, off) is None


def control() -> Any:
    return SimpleNamespace(should_training_stop=False, should_save=False)


def test_it_stops_saves_and_says_why(tmp_path: Path) -> None:
    switch, told = KillSwitch(LIMITS, tmp_path / "run"), control()
    state = SimpleNamespace(global_step=12)
    switch.on_log(None, state, told, {"loss": 0.3})
    assert not told.should_training_stop
    switch.on_log(None, state, told, {"episodes/hack_rate": 0.5})
    assert told.should_training_stop and told.should_save
    written = json.loads((tmp_path / "run" / STOPPED).read_text())
    assert written["reason"] == "stopped at step 12: episodes/hack_rate is 0.5, more than safety.hack_rate = 0.2"


def test_the_clock_and_what_it_costs_count(tmp_path: Path) -> None:
    now = [0.0]
    switch, told = KillSwitch(LIMITS, tmp_path, clock=lambda: now[0]), control()
    now[0] = 360.0
    assert switch.costs() == {"cost/hours": 0.1, "cost/usd": 10.0}
    switch.on_log(None, SimpleNamespace(global_step=1), told, {"loss": 1.0})
    assert not told.should_training_stop
    now[0] = 400.0
    switch.on_log(None, SimpleNamespace(global_step=2), told, {"loss": 1.0})
    assert switch.stop is not None and switch.stop.limit == "dollars"


def test_hours_before_an_interruption_count_too(tmp_path: Path) -> None:
    switch = KillSwitch(LIMITS, tmp_path, hours=0.5, clock=lambda: 7.0)
    assert switch.costs()["cost/hours"] == pytest.approx(0.5)
