"""Several processes: they learn what one process learns from the same rollouts and pairs, and stop together.

This also holds when one of them has no error turn or fewer pairs, and for micro-batches of other sizes, whose rows are
padded differently.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import pairs_file
from helpers.scripted_policy import base
from safetensors.torch import load_file

from etude.trainers.report.run_files import read_metrics

SCRIPT = Path(__file__).parents[1] / "helpers" / "training_world.py"
REPLAY_METRICS = [f"replay/{name}" for name in ("loss", "margin", "accuracy", "chosen_logp", "rejected_logp")]
ENVIRONMENT = {"PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
COUNTS = [f"distillation/{name}" for name in ("chosen", "sites", "tokens", "sites_helped", "student_tokens")]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def train(
    out: Path,
    model: Path,
    url: str,
    /,
    world: int,
    micro: int,
    prompts: int = 2,
    wrong: str = "",
    **tables: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train with ``world`` processes, and return the metrics and the final parameters, none for an unfinished run.

    ``tables`` are keys of the recipe, by table.
    """
    options: dict[str, Any] = {
        "out": out,
        "model": model,
        "url": url,
        "micro": micro,
        "prompts": prompts,
    }
    options |= {"wrong": wrong, "recipe": json.dumps(tables)}
    options["pairs"] = pairs_file(out.parent / "pairs.jsonl")
    arguments = json.dumps({name: str(value) for name, value in options.items()})
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = []
    for rank in range(world):
        ranked = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(SCRIPT), arguments],
                env={**os.environ, **ranked, **ENVIRONMENT},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    errors = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, errors[0][-2000:] + errors[-1][-2000:]
    weights = [*(out / "model").glob("*.safetensors")]
    return read_metrics(out / "metrics.jsonl"), load_file(weights[0]) if weights else {}


@pytest.mark.slow
def test_number_of_processes_and_size_of_micro_batches_change_nothing(drill_url: str, tmp_path: Path) -> None:
    model = base(tmp_path / "base")
    rows, weights = train(tmp_path / "one", model, drill_url, world=1, micro=8)
    assert all(row["distillation/chosen"] == 2 for row in rows)
    assert all(row["reward"] == 0.75 for row in rows)
    for name, world, micro in (("two", 2, 4), ("small", 1, 2)):
        assert_alike((rows, weights), train(tmp_path / name, model, drill_url, world, micro))


LORA = {"lora": {"rank": 4}}
FSDP = {"sharding": {"shards": 2}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables", "worlds"),
    [
        ({}, [(2, 4, FSDP), (2, 2, FSDP), (4, 2, FSDP)]),
        (LORA, [(2, 4, {}), (2, 4, FSDP), (4, 2, FSDP)]),
        ({"optimizer": {"name": "muon"}}, [(2, 4, FSDP)]),
        ({"distillation": {"teacher": "live"}, "safety": {"kl_to_base": 100.0}}, [(2, 4, FSDP)]),
        ({"distillation": {"teacher": "ema", "rate": 0.5}}, [(2, 4, FSDP), (4, 2, FSDP)]),
        ({"distillation": {"teacher": "trust_region", "rate": 0.5}, "train": {"gradients_every": 1}}, [(2, 4, FSDP)]),
        ({"objective": {"kl": "k1_in_reward", "kl_weight": 0.1}}, [(2, 4, FSDP)]),
    ],
)
def test_sharded_weights_and_adapters_learn_what_one_process_learns(
    tables: dict[str, Any], worlds: list[tuple[int, int, dict[str, Any]]], drill_url: str, tmp_path: Path
) -> None:
    """FSDP2 on two processes, and HSDP on four, with two copies of the weights. All three channels have a weight."""
    model = base(tmp_path / "base")
    rounding = 2e-3 if "optimizer" in tables else 1e-4  # Muon iterates in bfloat16
    one = train(tmp_path / "one", model, drill_url, world=1, micro=8, **tables)
    for world, micro, more in worlds:
        assert_alike(
            one,
            train(tmp_path / f"{world}{micro}{bool(more)}", model, drill_url, world, micro, **tables, **more),
            rounding,
        )


@pytest.mark.slow
@pytest.mark.parametrize("tables", [{}, LORA])
def test_sharded_model_samples_its_own_turns_in_bfloat16(
    tables: dict[str, Any], drill_url: str, tmp_path: Path
) -> None:
    """The ranks have different numbers of turns, and a random model never errs, so distillation has no site."""
    half = {"model": {"dtype": "bfloat16"}, "generation": {"max_turn_ids": 16}, "channels": {"replay": 0.0}}
    more = {"train": {"gradient_checkpointing": True}, **half, **FSDP, **tables}
    rows, weights = train(tmp_path / "out", base(tmp_path / "base"), drill_url, 2, 4, wrong="samples", **more)
    assert len(rows) == 2 and weights
    assert all(value.dtype.itemsize == 4 for value in weights.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "tables", [{}, {"optimizer": {"name": "muon"}}, LORA, {"distillation": {"teacher": "ema", "rate": 0.5}}]
)
def test_run_resumes_with_another_number_of_processes(tables: dict[str, Any], drill_url: str, tmp_path: Path) -> None:
    model, often = base(tmp_path / "base"), {"train": {"save_every": 1}}
    rows, weights = train(tmp_path / "whole", model, drill_url, 2, 4, **FSDP, **often, **tables)
    shutil.rmtree(tmp_path / "whole" / "checkpoints" / "checkpoint-2")
    (tmp_path / "whole" / "result.json").unlink()  # as if it had been interrupted after the first step
    for world, micro, more in ((1, 8, {}), (4, 2, FSDP), (2, 4, FSDP)):
        out = tmp_path / f"resumed{world}"
        shutil.copytree(tmp_path / "whole", out)
        resumed = train(out, model, drill_url, world, micro, **more, **often, **tables)
        assert json.loads((out / "result.json").read_text())["resumed_from"] == 1
        assert_alike((rows, weights), resumed)
    assert all(bool((resumed[1][name] == weights[name]).all()) for name in weights)  # the same number of processes


@pytest.mark.slow
def test_number_of_processes_changes_nothing_when_dapo_replaces_different_groups(
    drill_url: str, tmp_path: Path
) -> None:
    """Of three groups of four on two ranks, the second lies on both; it is flat and replaced, the third is not."""
    model = base(tmp_path / "base")
    one, two = (
        train(tmp_path / name, model, drill_url, world, micro, prompts=3, objective={"name": "dapo"})
        for name, world, micro in (("one", 1, 12), ("two", 2, 3))
    )
    assert_alike(one, two)
    for row, other in zip(one[0], two[0], strict=True):
        assert row["groups/replaced"] == other["groups/replaced"] > 0
        assert row["groups/given_up"] == other["groups/given_up"]
        assert row["reward"] == pytest.approx(other["reward"])


def assert_alike(
    one: tuple[list[dict[str, Any]], dict[str, Any]],
    two: tuple[list[dict[str, Any]], dict[str, Any]],
    rounding: float = 1e-4,
) -> None:
    for row, other in zip(one[0], two[0], strict=True):
        assert abs(row["loss"] - other["loss"]) <= 1e-5 * max(1, abs(row["loss"]))
        assert abs(row["grad_norm"] - other["grad_norm"]) <= 1e-4 * row["grad_norm"]
        counts = {name for name in {*row, *other} if name.startswith("episodes/") or name in COUNTS}
        assert {name: row.get(name) for name in counts} == {name: other.get(name) for name in counts}
        measured = {name for name in {*row, *other} if name.startswith("gradient/") or name == "teacher_drift"}
        for name in measured:
            assert row[name] == pytest.approx(other[name], rel=10 * rounding, abs=1e-6)
        for name in ("distillation/divergence", "distillation/teacher_gain", "distillation/loss", *REPLAY_METRICS):
            assert row[name] == pytest.approx(other[name], rel=rounding, abs=1e-6)
    assert max(float((one[1][key] - two[1][key]).abs().max()) for key in one[1]) <= rounding / 10


# --- one rank stops ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "stopped"),
    [
        ("hacks", "stopped at step 1: episodes/hack_rate is 0.5, more than safety.hack_rate = 0.2"),
        ("late", "stopped at step 1: cost/hours is .*, more than safety.hours = 1"),
        ("asked", ""),
    ],
)
def test_all_ranks_stop_for_the_same_reason_when_the_second_stops(
    wrong: str, stopped: str, drill_url: str, tmp_path: Path
) -> None:
    """The ranks compare their results themselves. If one stopped alone, the other would wait for it forever."""
    train(tmp_path / "out", base(tmp_path / "base"), drill_url, world=2, micro=4, wrong=wrong)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["steps"], result["interrupted"]) == (1, not stopped)
    assert re.fullmatch(stopped, result["stopped"])
    assert (tmp_path / "out" / "checkpoints" / "checkpoint-1" / "etude.pt").is_file()


@pytest.mark.slow
def test_all_ranks_end_when_one_loses_its_server_and_the_run_can_be_resumed(drill_url: str, tmp_path: Path) -> None:
    model = base(tmp_path / "base")
    whole = train(tmp_path / "whole", model, drill_url, world=2, micro=4)
    train(tmp_path / "run", model, drill_url, world=2, micro=4, wrong="lost")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == ["checkpoint-1"]
    assert_alike(whole, train(tmp_path / "run", model, drill_url, world=2, micro=4))
