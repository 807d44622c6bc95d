"""Stage "sft" with adapters and with sharded weights: what one process learns with all its weights on one device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_policy import base
from helpers.solved_episodes import recipe

from etude.cli import app as cli
from etude.cli.commands.train import read_episodes
from etude.trainers.recipe.load import parse
from etude.trainers.report.page import recipe_toml
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run.train import run

LORA = {"lora": {"rank": 4}}
FSDP = {"sharding": {"shards": 2}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "oracle"
    assert cli.main(["run", "--tasks", "drill", "-a", "oracle", "--limit", "5", "-o", str(folder)]) == 0
    return folder


def losses(out: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(out / "metrics.jsonl")]


def test_adapters_learn_from_solved_episodes(model: Path, episodes: Path, tmp_path: Path) -> None:
    run(parse(recipe(model, tmp_path / "run", episodes, **LORA)), episodes=read_episodes)
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0] - 0.1
    assert (tmp_path / "run" / "model" / "adapter_model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("tables", [{}, LORA])
def test_sharded_weights_learn_what_one_process_learns(
    tables: dict[str, Any], model: Path, episodes: Path, tmp_path: Path
) -> None:
    """FSDP2 on two processes, started as a user starts them."""
    run(parse(recipe(model, tmp_path / "one", episodes, **tables)), episodes=read_episodes)
    file = tmp_path / "recipe.toml"
    file.write_text(recipe_toml(parse(recipe(model, tmp_path / "two", episodes, **tables, **FSDP)).model_dump()))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [*command, "-m", "etude.cli", "train", str(file), "--json"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["steps"] == 4  # one process reports, and no other writes
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)
