"""When a run stops by itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etude.trainers import distributed as ranks
from etude.trainers.recipe.recipe import Safety
from etude.trainers.run.checkpoints import Interrupt
from etude.trainers.run.kill_switch import STOPPED, KillSwitch, Stop, verdict

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


def at(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, max_steps=20, is_world_process_zero=first)


def test_it_stops_saves_and_says_why(tmp_path: Path) -> None:
    switch, told = KillSwitch(LIMITS, tmp_path / "run"), control()
    state = at(12)
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
    switch.on_log(None, at(1), told, {"loss": 1.0})
    assert not told.should_training_stop
    now[0] = 400.0
    switch.on_log(None, at(2), told, {"loss": 1.0})
    assert switch.stop is not None and switch.stop.limit == "dollars"


def test_it_stops_where_a_batch_is_used_up(tmp_path: Path) -> None:
    """Elsewhere the run could not go on as it would have."""
    switch, told = KillSwitch(LIMITS, tmp_path, every=3), control()
    switch.on_log(None, at(4), told, {"episodes/hack_rate": 0.5})
    switch.on_log(None, at(5), told, {"loss": 0.1})
    assert switch.stop is None and not told.should_training_stop
    switch.on_log(None, at(6), told, {"loss": 0.1})
    assert switch.stop == Stop(6, "hack_rate", "episodes/hack_rate", 0.5, 0.2)
    assert told.should_training_stop and told.should_save


@pytest.mark.parametrize(("step", "logs"), [(5, {"loss": math.nan}), (20, {"loss": 0.1})])
def test_it_does_not_wait_where_weights_are_lost_or_the_run_ends(
    step: int, logs: dict[str, float], tmp_path: Path
) -> None:
    switch = KillSwitch(LIMITS, tmp_path, every=3)
    switch.on_log(None, at(4), control(), {"episodes/hack_rate": 0.5})
    switch.on_log(None, at(step), control(), logs)
    assert switch.stop is not None and (switch.stop.step, switch.poisoned) == (step, step == 5)


def test_hours_before_an_interruption_count_too(tmp_path: Path) -> None:
    switch = KillSwitch(LIMITS, tmp_path, hours=0.5, clock=lambda: 7.0)
    assert switch.costs()["cost/hours"] == pytest.approx(0.5)


@pytest.mark.parametrize("saved", [True, False])
def test_weights_that_are_no_numbers_are_not_saved(saved: bool, tmp_path: Path) -> None:
    """Also where a checkpoint is due."""
    good = tmp_path / "checkpoints" / "checkpoint-4"
    if saved:
        good.mkdir(parents=True)
        (good / "etude.pt").touch()
    switch, told = KillSwitch(LIMITS, tmp_path), control()
    told.should_save = True
    switch.on_log(None, at(6), told, {"loss": 0.1, "grad_norm": math.nan})
    assert (told.should_training_stop, told.should_save, switch.poisoned) == (True, False, True)
    left = f"{good} is the last good checkpoint" if saved else "there is no checkpoint before it"
    said = f"stopped at step 6: grad_norm is nan, its weights are not saved; {left}"
    assert json.loads((tmp_path / STOPPED).read_text())["reason"] == str(switch.stop) == said


# --- several ranks -----------------------------------------------------------------------------------------------


def test_what_another_rank_finds_stops_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = Stop(3, "hours", "cost/hours", 2.1, 2.0)
    monkeypatch.setattr(ranks, "gathered", lambda mine: [mine, other])
    first, told = KillSwitch(LIMITS, tmp_path), control()
    first.on_log(None, at(3), told, {"loss": 0.1})
    assert told.should_training_stop and told.should_save and first.stop == other
    assert json.loads((tmp_path / STOPPED).read_text())["limit"] == "hours"


def test_the_first_rank_says_why_and_it_alone_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = Stop(3, "hours", "cost/hours", 2.1, 2.0)
    monkeypatch.setattr(ranks, "gathered", lambda mine: [other, mine])
    second = KillSwitch(LIMITS, tmp_path)
    second.on_log(None, at(3, first=False), control(), {"teacher_drift": 0.5})
    assert second.stop == other and not (tmp_path / STOPPED).exists()


@pytest.mark.parametrize(("elsewhere", "ends"), [(True, True), (None, False)])
def test_an_interrupt_of_another_rank_ends_this_one(
    elsewhere: bool | None, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "gathered", lambda mine: [mine, elsewhere])
    interrupt, told = Interrupt(every=2), control()
    interrupt.on_step_end(None, at(3), told)
    assert not told.should_training_stop
    interrupt.on_step_end(None, at(4), told)
    assert told.should_training_stop == told.should_save == interrupt.heard == ends
