"""Two processes learn what one learns from the same rollouts and pairs, also when one of them has no error turn or
fewer pairs; so do larger and smaller micro-batches, whose rows are padded differently.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import pairs_file
from helpers.scripted_policy import base
from safetensors.torch import load_file

from etude.trainers.run.callbacks import read_metrics

SCRIPT = Path(__file__).parents[1] / "helpers" / "training_world.py"
NOTED = [f"replay/{name}" for name in ("loss", "margin", "accuracy", "chosen_logp", "rejected_logp")]
QUIET = {"PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
COUNTED = [f"distillation/{name}" for name in ("chosen", "sites", "tokens", "sites_helped", "student_tokens")]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def train(
    out: Path,
    model: Path,
    url: str,
    world: int,
    micro: int,
    prompts: int = 2,
    objective: str = "dr_grpo",
    wrong: str = "",
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The metrics, and the parameters at the end; none when the run was interrupted."""
    told = {"out": out, "model": model, "url": url, "micro": micro, "prompts": prompts, "objective": objective}
    told["wrong"] = wrong
    told["pairs"] = pairs_file(out.parent / "pairs.jsonl")
    given = json.dumps({name: str(value) for name, value in told.items()})
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = []
    for rank in range(world):
        own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(SCRIPT), given],
                env={
                    **os.environ,
                    **own,
                    "PYTHONPATH": str(SCRIPT.parents[1]),
                    "OMP_NUM_THREADS": "1",
                    "ACCELERATE_USE_CPU": "true",
                },
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, said[0][-2000:] + said[-1][-2000:]
    weights = out / "model" / "model.safetensors"
    return read_metrics(out / "metrics.jsonl"), load_file(weights) if weights.exists() else {}


@pytest.mark.slow
def test_processes_and_micro_batches_change_nothing(drill_url: str, tmp_path: Path) -> None:
    model = base(tmp_path / "base")
    rows, weights = train(tmp_path / "one", model, drill_url, world=1, micro=8)
    assert all(row["distillation/chosen"] == 2 for row in rows)
    assert all(row["reward"] == 0.75 for row in rows)
    for name, world, micro in (("two", 2, 4), ("small", 1, 2)):
        alike((rows, weights), train(tmp_path / name, model, drill_url, world, micro))


@pytest.mark.slow
def test_nor_do_they_for_dapo_whose_ranks_have_unequal_groups_to_play_again(drill_url: str, tmp_path: Path) -> None:
    """Three groups of four on two ranks: the second lies on both, is flat as the third is not, and is replaced."""
    model = base(tmp_path / "base")
    one, two = (
        train(tmp_path / name, model, drill_url, world, micro, prompts=3, objective="dapo")
        for name, world, micro in (("one", 1, 12), ("two", 2, 3))
    )
    alike(one, two)
    for row, other in zip(one[0], two[0], strict=True):
        assert row["groups/replaced"] == other["groups/replaced"] > 0
        assert row["groups/given_up"] == other["groups/given_up"]
        assert row["reward"] == pytest.approx(other["reward"])


def alike(one: tuple[list[dict[str, Any]], dict[str, Any]], two: tuple[list[dict[str, Any]], dict[str, Any]]) -> None:
    for row, other in zip(one[0], two[0], strict=True):
        assert abs(row["loss"] - other["loss"]) <= 1e-5 * max(1, abs(row["loss"]))
        assert abs(row["grad_norm"] - other["grad_norm"]) <= 1e-4 * row["grad_norm"]
        counted = {name for name in {*row, *other} if name.startswith("episodes/") or name in COUNTED}
        assert {name: row.get(name) for name in counted} == {name: other.get(name) for name in counted}
        for name in ("distillation/divergence", "distillation/teacher_gain", "distillation/loss", *NOTED):
            assert row[name] == pytest.approx(other[name], rel=1e-4, abs=1e-6)
    assert max(float((one[1][key] - two[1][key]).abs().max()) for key in one[1]) <= 1e-5


# --- one rank has a reason to stop -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "stopped"),
    [
        ("hacks", "stopped at step 1: episodes/hack_rate is 0.5, more than safety.hack_rate = 0.2"),
        ("late", "stopped at step 1: cost/hours is .*, more than safety.hours = 1"),
        ("asked", ""),
    ],
)
def test_all_ranks_stop_with_the_second_and_say_the_same(
    wrong: str, stopped: str, drill_url: str, tmp_path: Path
) -> None:
    """What they return is compared where they run; a rank that stops alone leaves the other waiting for it."""
    train(tmp_path / "out", base(tmp_path / "base"), drill_url, world=2, micro=4, wrong=wrong)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["steps"], result["interrupted"]) == (1, not stopped)
    assert re.fullmatch(stopped, result["stopped"])
    assert (tmp_path / "out" / "checkpoints" / "checkpoint-1" / "etude.pt").is_file()


@pytest.mark.slow
def test_all_ranks_end_when_one_loses_its_server_and_the_run_goes_on(drill_url: str, tmp_path: Path) -> None:
    model = base(tmp_path / "base")
    whole = train(tmp_path / "whole", model, drill_url, world=2, micro=4)
    train(tmp_path / "run", model, drill_url, world=2, micro=4, wrong="lost")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == ["checkpoint-1"]
    alike(whole, train(tmp_path / "run", model, drill_url, world=2, micro=4))
