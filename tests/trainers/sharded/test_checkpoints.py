"""Checkpoints: any number of processes resumes exactly what another number wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.ranks import run_on_ranks
from helpers.sharded_models import Checkpoints, read, saved, write

from etude.errors import RecipeError

WORLDS = {"one": (1, 0), "fsdp2": (2, 2), "hsdp4": (4, 2)}


def run(world: str, function: Any, folder: Path, *arguments: Any) -> list[str]:
    ranks, shards = WORLDS[world]
    before, optimizer, checkpoint = arguments
    arguments = (before, shards, optimizer, checkpoint)
    return [function(*arguments)] if ranks == 1 else run_on_ranks(ranks, function, folder, *arguments)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(
    ("writer", "reader"),
    [("one", "fsdp2"), ("fsdp2", "one"), ("fsdp2", "hsdp4"), ("hsdp4", "fsdp2"), ("hsdp4", "one")],
)
def test_checkpoint_of_another_number_of_processes_is_resumed_to_the_bit(
    writer: str, reader: str, optimizer: str, tmp_path: Path
) -> None:
    base, checkpoint = saved(tmp_path / "base"), tmp_path / "checkpoint"
    checkpoint.mkdir()
    written = run(writer, write, tmp_path, base, optimizer, checkpoint)
    loaded = run(reader, read, tmp_path, base, optimizer, checkpoint)
    assert len({*written, *loaded}) == 1


def test_tied_weights_and_experts_are_resumed_too(tmp_path: Path) -> None:
    for name in ("qwen3-tied", "qwen3-moe"):
        folder = tmp_path / name
        checkpoint = folder / "checkpoint"
        checkpoint.mkdir(parents=True)
        base = saved(folder / "base", name)
        written = run("fsdp2", write, folder, base, "adamw", checkpoint)
        assert {*written} == {*run("one", read, folder, base, "adamw", checkpoint)}


def test_state_of_another_optimizer_is_refused_in_one_line(tmp_path: Path) -> None:
    base, checkpoint = saved(tmp_path / "base"), tmp_path / "checkpoint"
    checkpoint.mkdir()
    write(base, 0, "muon", checkpoint)
    assert (
        run_on_ranks(2, _refusal, tmp_path, base, checkpoint)
        == ["the checkpoint was written with another optimizer; set the one of that run"] * 2
    )


def _refusal(base: Path, checkpoint: Path) -> str:
    with pytest.raises(RecipeError) as raised:
        Checkpoints(base, 2, "adamw").resume(checkpoint)
    return str(raised.value)


def test_weights_of_a_whole_model_with_experts_are_resumed(tmp_path: Path) -> None:
    """The names of stacked experts in a file differ from those in memory."""
    base, checkpoint = saved(tmp_path / "base", "qwen3-moe"), tmp_path / "checkpoint"
    checkpoint.mkdir()
    run = Checkpoints(base, 0, "adamw")
    run.train(1)
    run.save(checkpoint)
    other = Checkpoints(base, 0, "adamw")
    other.resume(checkpoint)
    for one, two in zip(run.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)
