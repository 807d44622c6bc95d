"""Experiment (A): its result file, its measures, its verdicts."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from etude.research.error_turns import driver, mechanism, summary, tables
from etude.research.error_turns.small_world import arms, bases


def test_cut_result_file_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = tmp_path / "runs.jsonl", []

    def run(run: mechanism.Run, folder: Path, updates: int) -> dict[str, object]:
        calls.append(run)
        errors = [0.75, 0.5 - run.rate]
        curve = {"episodes": [0, 32], "tokens": [0, 9], "errors": errors, "drifts": []}
        extra = {"broken": False, "good_turn_kl": 0.0, "follows": 1.0, "cpu_seconds": 1.0, "base": "b", "updates": 1}
        return {**run._asdict(), **curve, **extra}

    monkeypatch.setattr(mechanism, "run_one", run)
    monkeypatch.setattr(bases, "base", lambda name, folder, progress: None)
    monkeypatch.setattr(bases, "digest", lambda model: "b")
    monkeypatch.setattr(mechanism, "evaluated", lambda folder, updates: iter(()))
    options = argparse.Namespace(
        out=tmp_path, report=False, arms=["distill", "live"], tuning=2, seeds=3, updates=1, jobs=1
    )
    mechanism.go(options)
    assert len(calls) == 2 * (3 * 2 + 3)
    assert {call.rate for call in calls if call.seed < 1000} == {3e-3}, "the rate of the least area"
    text = path.read_text()
    path.write_text(text[: len(text) - 40])
    calls.clear()
    mechanism.go(options)
    assert calls == [mechanism.Run("live", 3e-3, 3)]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [json.loads(x) for x in text.splitlines()]
    with pytest.raises(mechanism.Refused, match="another length"):
        mechanism.go(argparse.Namespace(**{**vars(options), "updates": 2}))


def test_runs_that_have_not_started_are_dropped_when_one_fails(tmp_path: Path) -> None:
    places: list[Any] = [tmp_path / "not there" / "x", *(tmp_path / str(number) for number in range(4000))]
    touch: Any = Path.touch  # what another process can import
    with pytest.raises(FileNotFoundError):
        list(driver.run_all(places, touch, 2))
    assert len(list(tmp_path.iterdir())) < 4000


def test_an_arm_of_several_rates_is_refused() -> None:
    rows = [{"arm": "distill", "rate": rate, "seed": 1} for rate in (1e-3, 3e-4)]
    with pytest.raises(driver.Refused, match="several learning rates"):
        driver.counted(mechanism.EXPERIMENT, rows)


def row(errors: list[float], **more: object) -> dict[str, object]:
    steps = range(len(errors))
    curve = {"errors": errors, "episodes": [160 * n for n in steps], "tokens": list(steps)}
    more = {"rate": 1e-3, "cpu_seconds": 0.0, "follows": None, **more}
    return {**curve, "drifts": [0.0] * len(errors), "seed": 0, "good_turn_kl": 0.0, "broken": False, **more}


def test_curves_are_shown_at_every_evaluation_against_episodes_and_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    arms = {"short": [row([0.8, 0.4]), row([0.8, 0.2])], "long": [row([0.8, 0.4, 0.1])]}
    tables.show_curves({name: summary.summarised(rows)["curve"] for name, rows in arms.items()})
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert shown == [
        ["error", "after", "0", "160", "episodes"],
        ["short", "0.800", "0.300"],
        ["long", "0.800", "0.400"],
        ["M", "tokens", "after", "0", "160", "episodes"],
        ["short", "0.000", "0.000"],
        ["long", "0.000", "0.000"],
        ["error", "after", "320", "episodes"],
        ["long", "0.100"],
        ["M", "tokens", "after", "320", "episodes"],
        ["long", "0.000"],
    ]


def test_measures_of_a_curve() -> None:
    one = row([0.8, 0.4, 0.1, 0.0])
    assert summary.area(one) == pytest.approx((0.6 + 0.25 + 0.05) / 3)
    assert (summary.MEASURES["episodes"](one), summary.MEASURES["tokens"](one)) == (320, 2)
    never = row([0.8, 0.7])
    assert (summary.reached(never), summary.MEASURES["episodes"](never)) == (None, 160)
    assert float(summary.iqm(torch.tensor([9.0, 1.0, 2.0, 3.0, -5.0]))) == 2.0


def test_contrasts_are_judged_by_their_whole_interval() -> None:
    def judged(name: str, left: list[float], right: list[float]) -> str:
        contrast = next(each for each in summary.CONTRASTS if each.name == name)
        contrast = replace(contrast, left="a", right="b", measure="final")
        found = {"a": [row([0.7, x]) for x in left], "b": [row([0.7, x]) for x in right]}
        one = summary.compared(contrast, found)
        assert one is not None and one["low"] <= one["value"] <= one["high"]
        return str(one["verdict"])

    bad, good = [0.7, 0.71, 0.72, 0.73, 0.74], [0.01, 0.02, 0.01, 0.02, 0.01]
    assert [judged("P1", good, bad), judged("P1", bad, good), judged("P6", bad, good)] == [
        "support",
        "refuted",
        "support",
    ]
    assert judged("P2", [0.0, 0.1, 0.5, 0.9, 1.0], [0.1, 0.2, 0.4, 0.8, 0.9]) == "open"
    assert [judged("S9", good, good), judged("S9", bad, good), judged("S9", good, bad)] == [
        "support",
        "refuted",
        "refuted",
    ]
    assert judged("S3", [0.1] * 5, [0.9] * 5) == "support"


def test_contrast_has_the_values_of_its_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    contrast = summary.Contrast("X", "distill", 0.4, "final", "below", 0.0)
    other = replace(contrast, right="live")
    found = {"distill": [row([0.7, 0.1]), row([0.7, 0.25])], "live": [row([0.7, 0.5]), row([0.7, 0.6])]}
    compared = [summary.compared(each, found) for each in (contrast, other)]
    tables.show_seeds([each for each in compared if each])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert lines == [
        ["seed", "by", "seed"],
        ["distill,", "final", "0.1", "0.25"],
        ["live,", "final", "0.5", "0.6"],
    ]


def test_every_contrast_names_existing_arms() -> None:
    for contrast in summary.CONTRASTS:
        assert contrast.left in arms.ARMS
        assert not isinstance(contrast.right, str) or contrast.right in arms.ARMS
    here = Path(mechanism.__file__).parent
    registered = "".join((here / f"PREREGISTERED{what}.md").read_text() for what in ("", "_PERIODIC"))
    assert all(f"`{name}`" in registered for name, arm in arms.ARMS.items() if arm.base == "strong")


def test_the_copied_teacher_was_counted_at_the_rates_that_its_tuning_chose() -> None:
    rows = driver.load(Path(mechanism.__file__).parent / "results" / "periodic.jsonl")
    every = driver.counted(mechanism.EXPERIMENT, rows)
    for arm in ("distill", "periodic", "weak_distill", "weak_periodic"):
        assert [row["seed"] for row in every[arm]] == [1, 2, 3, 4, 5]
        assert {row["rate"] for row in every[arm]} == {driver.chosen(mechanism.EXPERIMENT, arm, rows, 1)}


def test_the_guard_must_trip_before_the_harm() -> None:
    assert summary.in_time({"errors": [0.75, 0.2, 0.3, 0.9], "drifts": [0.0, 0.01, 0.06, 0.3]})
    assert not summary.in_time({"errors": [0.75, 0.2, 0.9, 0.9], "drifts": [0.0, 0.01, 0.02, 0.3]})
    assert not summary.in_time({"errors": [0.75, 0.2, 0.1], "drifts": [0.0, 0.0, 0.0]})
    both = {"errors": [0.75, 0.2, 0.5], "drifts": [0.0, 0.01, 0.2]}
    assert not summary.in_time(both) and summary.in_time(both, early=False)
