"""Ladder of the channels: what each rung learns from, and that its one command makes nothing first."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from etude.research.error_turns import ladder
from etude.research.error_turns.real_stack import base_models, command, runs
from etude.research.error_turns.real_stack.arm_trainer import ARMS
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.trainers.replay.channel.loss import DEFAULT

PAGE = Path(ladder.__file__).with_name("RESULTS_LADDER.md")
ROWS = Path(ladder.__file__).with_name("results") / "ladder.jsonl"


@pytest.mark.parametrize(
    ("name", "rlvr", "distillation", "replay"),
    [
        ("grpo_sparse", 1.0, 0.0, 0.0),
        ("sparse_tenth", 1.0, 0.1, 0.0),
        ("sparse_replay", 1.0, 0.0, 1.0),
        ("sparse_chosen", 1.0, 0.0, 1.0),
        ("sparse_tenth_replay", 1.0, 0.1, 1.0),
    ],
)
def test_rung_uses_its_channels(name: str, rlvr: float, distillation: float, replay: float, tmp_path: Path) -> None:
    assert name in ladder.RUNGS
    pairs = tmp_path / "pairs.jsonl"
    recipe = runs.recipe_of(DRILLS, ARMS[name], 3e-4, 1, ladder.BASE, "http://h", tmp_path, 2, pairs)
    channels = recipe.channels
    weights = (channels.rlvr(0.5), channels.distillation(0.5), channels.replay(0.5))
    assert weights == (rlvr, distillation, replay)
    if replay:
        used = dict(zip(recipe.replay.losses, recipe.replay.weights, strict=True))
        assert used == ({"sft": DEFAULT["sft"]} if name == "sparse_chosen" else DEFAULT)


def test_ladder_uses_the_base_that_is_in_the_repository(tmp_path: Path) -> None:
    options = argparse.Namespace(arms=ladder.RUNGS, bases=None, out=tmp_path, ready_bases=ladder.LADDER.bases)
    assert command.places_of(DRILLS, options) == {"strong": ladder.BASE} and list(tmp_path.iterdir()) == []


def test_rows_are_of_that_base_and_cover_every_rung() -> None:
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    assert {row["arm"] for row in rows} == {"base", "ceiling", *ladder.RUNGS}
    assert {row["base"] for row in rows} == {base_models.digest(ladder.BASE)}


def test_page_has_the_numbers_of_the_rows() -> None:
    page = PAGE.read_text()
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        last = row["held"]["train"][-1]
        shown = f"| {row['arm']} | {row['seed']} | {last['missed']:.2f} | {last['turns']:.2f} | {last['solved']:.2f} |"
        assert shown in page
