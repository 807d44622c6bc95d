"""Kill switch: when it stops a run, what it saves, and how ranks agree."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etude.trainers import distributed
from etude.trainers.recipe.recipe import Safety
from etude.trainers.report.run_files import STOPPED
from etude.trainers.run.checkpoints import Interrupt
from etude.trainers.run.kill_switch import KillSwitch, Stop, broken_limit

LIMITS = Safety(
    kl_to_base=0.5, teacher_drift=0.1, hack_rate=0.2, suspect_rate=0.4, dollars=10, dollars_per_hour=100, hours=2
)


@pytest.mark.parametrize(
    ("logs", "limit"),
    [
        ({"loss": math.nan}, "nan"),
        ({"loss": 0.1, "grad_norm": math.inf}, "nan"),
        ({"kl_good_turns": 0.51}, "kl_to_base"),
        ({"kl_good_turns": math.nan}, "kl_to_base"),
        ({"teacher_drift": 0.2}, "teacher_drift"),
        ({"episodes/hack_rate": 0.25}, "hack_rate"),
        ({"episodes/suspect_rate": 0.45, "episodes/hack_rate": 0.1}, "suspect_rate"),
        ({"cost/usd": 10.1}, "dollars"),
        ({"cost/hours": 2.1}, "hours"),
    ],
)
def test_each_limit_can_be_broken(logs: dict[str, Any], limit: str) -> None:
    stop = broken_limit(7, logs, LIMITS)
    assert stop is not None and (stop.step, stop.limit) == (7, limit)


def test_no_limit_is_broken_at_its_value_or_when_it_is_off() -> None:
    fine = {"loss": 0.1, "kl_good_turns": 0.5, "episodes/hack_rate": 0.2, "cost/hours": 2.0}
    assert broken_limit(1, fine, LIMITS) is None
    off = Safety(teacher_drift=0, hack_rate=0)
    assert broken_limit(1, {"teacher_drift": 9.0, "episodes/hack_rate": 1.0, "cost/usd": 1e9}, off) is None


def new_control() -> Any:
    return SimpleNamespace(should_training_stop=False, should_save=False)


def at(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, max_steps=20, is_world_process_zero=first)


def test_kill_switch_stops_saves_and_writes_its_reason(tmp_path: Path) -> None:
    switch, control = KillSwitch(LIMITS, tmp_path / "run"), new_control()
    state = at(12)
    switch.on_log(None, state, control, {"loss": 0.3})
    assert not control.should_training_stop
    switch.on_log(None, state, control, {"episodes/hack_rate": 0.5})
    assert control.should_training_stop and control.should_save
    written = json.loads((tmp_path / "run" / STOPPED).read_text())
    assert written["reason"] == "stopped at step 12: episodes/hack_rate is 0.5, more than safety.hack_rate = 0.2"


def test_hack_rates_are_averaged_over_a_full_window(tmp_path: Path) -> None:
    switch = KillSwitch(Safety(hack_rate=0.05, hack_window=3), tmp_path)
    rates = [0.1, 0.0, 0.0, 0.1, 0.1, 0.0]
    for step, rate in enumerate(rates, 1):
        control = new_control()
        switch.on_log(None, at(step), control, {"episodes/hack_rate": rate})
        switch.on_log(None, at(step), control, {"loss": 0.1})  # a log without episodes does not count as one
        if switch.stop is not None:
            break
    assert switch.stop is not None and switch.stop.step == 5 and control.should_training_stop
    reason = (
        "stopped at step 5: episodes/hack_rate is 0.06667 on average over 3 steps, more than safety.hack_rate = 0.05"
    )
    assert json.loads((tmp_path / STOPPED).read_text())["reason"] == reason


def test_a_suspect_rate_is_off_unless_the_recipe_sets_it(tmp_path: Path) -> None:
    switch = KillSwitch(Safety(), tmp_path)
    switch.on_log(None, at(1), new_control(), {"episodes/suspect_rate": 1.0, "episodes/hack_rate": 0.0})
    assert switch.stop is None


def test_costs_follow_the_clock_and_can_break_a_limit(tmp_path: Path) -> None:
    now = [0.0]
    switch, control = KillSwitch(LIMITS, tmp_path, clock=lambda: now[0]), new_control()
    now[0] = 360.0
    assert switch.costs() == {"cost/hours": 0.1, "cost/usd": 10.0}
    switch.on_log(None, at(1), control, {"loss": 1.0})
    assert not control.should_training_stop
    now[0] = 400.0
    switch.on_log(None, at(2), control, {"loss": 1.0})
    assert switch.stop is not None and switch.stop.limit == "dollars"


def test_kill_switch_stops_between_two_batches_of_episodes(tmp_path: Path) -> None:
    """A run can resume only there with the same losses."""
    switch, control = KillSwitch(LIMITS, tmp_path, every=3), new_control()
    switch.on_log(None, at(4), control, {"episodes/hack_rate": 0.5})
    switch.on_log(None, at(5), control, {"loss": 0.1})
    assert switch.stop is None and not control.should_training_stop
    switch.on_log(None, at(6), control, {"loss": 0.1})
    assert switch.stop == Stop(6, "hack_rate", "episodes/hack_rate", 0.5, 0.2)
    assert control.should_training_stop and control.should_save


@pytest.mark.parametrize(("step", "logs"), [(5, {"loss": math.nan}), (20, {"loss": 0.1})])
def test_kill_switch_stops_at_once_when_weights_are_lost_or_the_run_ends(
    step: int, logs: dict[str, float], tmp_path: Path
) -> None:
    switch = KillSwitch(LIMITS, tmp_path, every=3)
    switch.on_log(None, at(4), new_control(), {"episodes/hack_rate": 0.5})
    switch.on_log(None, at(step), new_control(), logs)
    assert switch.stop is not None and (switch.stop.step, switch.weights_lost) == (step, step == 5)


def test_costs_include_hours_before_an_interruption(tmp_path: Path) -> None:
    switch = KillSwitch(LIMITS, tmp_path, hours=0.5, clock=lambda: 7.0)
    assert switch.costs()["cost/hours"] == pytest.approx(0.5)


@pytest.mark.parametrize("saved", [True, False])
def test_weights_that_are_not_finite_are_not_saved(saved: bool, tmp_path: Path) -> None:
    """A checkpoint that is due is not saved either."""
    good = tmp_path / "checkpoints" / "checkpoint-4"
    if saved:
        good.mkdir(parents=True)
        (good / "etude.pt").touch()
    switch, control = KillSwitch(LIMITS, tmp_path), new_control()
    control.should_save = True
    switch.on_log(None, at(6), control, {"loss": 0.1, "grad_norm": math.nan})
    assert (control.should_training_stop, control.should_save, switch.weights_lost) == (True, False, True)
    remedy = f"{good} is the last good checkpoint" if saved else "no checkpoint was written before it"
    reason = f"stopped at step 6: grad_norm is nan, its weights are not saved; {remedy}"
    assert json.loads((tmp_path / STOPPED).read_text())["reason"] == str(switch.stop) == reason


# --- several ranks -----------------------------------------------------------------------------------------------


def test_kill_switch_stops_when_another_rank_breaks_a_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = Stop(3, "hours", "cost/hours", 2.1, 2.0)
    monkeypatch.setattr(distributed, "gather_from_ranks", lambda value: [value, other])
    first, control = KillSwitch(LIMITS, tmp_path), new_control()
    first.on_log(None, at(3), control, {"loss": 0.1})
    assert control.should_training_stop and control.should_save and first.stop == other
    assert json.loads((tmp_path / STOPPED).read_text())["limit"] == "hours"


def test_reason_is_that_of_the_first_rank_which_alone_writes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Stop(3, "hours", "cost/hours", 2.1, 2.0)
    monkeypatch.setattr(distributed, "gather_from_ranks", lambda value: [other, value])
    second = KillSwitch(LIMITS, tmp_path)
    second.on_log(None, at(3, first=False), new_control(), {"teacher_drift": 0.5})
    assert second.stop == other and not (tmp_path / STOPPED).exists()


@pytest.mark.parametrize(("elsewhere", "ends"), [(True, True), (None, False)])
def test_interrupt_of_another_rank_ends_this_one(
    elsewhere: bool | None, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "gather_from_ranks", lambda value: [value, elsewhere])
    interrupt, control = Interrupt(every=2), new_control()
    interrupt.on_step_end(None, at(3), control)
    assert not control.should_training_stop
    interrupt.on_step_end(None, at(4), control)
    assert control.should_training_stop == control.should_save == interrupt.interrupted == ends
