"""Entry of ``etude train``: check a recipe and run it.

Mistakes are reported before weights are loaded, in this order: the recipe with this machine and the files that it
names, the folder of the run, the server and its tasks, the tokenizer and its template, the model's context and
vocabulary. Importing this module does not import torch.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import RecipeError
from ...registry import did_you_mean
from ..distributed import rank, world_size
from ..recipe.recipe import Recipe
from ..report.page import write_report
from ..report.run_files import RECIPE, RESULT, STOPPED
from ..rollouts.local_server import local_server
from ..sft.rows import ReadEpisodes, Solved, select
from .preflight import check_devices, check_files, check_machine
from .records import Progress, Result, WriteDialogues, plan
from .run_dir import check_run_dir, lock_run_dir, write_json

HELD_OUT = ("eval", "validation")
"""Splits that a run is evaluated on: the first of these that has tasks."""


def check(
    recipe: Recipe,
    episodes: ReadEpisodes | None = None,
    dialogues: Mapping[str, WriteDialogues] | None = None,
) -> tuple[Solved | None, dict[str, Any]]:
    """Check all that can be checked without a model and a server, and return stage "sft"'s episodes and the plan.

    The arguments are those of ``run``. Raise RecipeError, ReplayError and TrainingRunError.
    """
    check_machine(recipe)
    check_files(recipe)
    if recipe.model.make and not dialogues:
        raise RecipeError("model.make needs dialogues to pretrain on; use `etude train`, which writes them")
    if recipe.model.make and dialogues and recipe.model.make not in dialogues:
        raise RecipeError(f"model.make: {did_you_mean('environment with dialogues', recipe.model.make, dialogues)}")
    solved = select(recipe, episodes)
    resolved = plan(recipe, world_size(), solved)
    check_run_dir(recipe, Path(recipe.out))
    return solved, resolved


def dry_run(
    recipe: Recipe,
    episodes: ReadEpisodes | None = None,
    dialogues: Mapping[str, WriteDialogues] | None = None,
) -> dict[str, Any]:
    """Check what ``run`` checks before it loads weights, and return the plan with what was found as ``checks``.

    The server must have the tasks; the model's tokenizer, template, context and vocabulary are checked, and its memory
    is estimated. Nothing is written but the Hub's cache of tokenizer and config. A model that ``model.make`` has not
    made yet is not checked. Raise what ``run`` raises.
    """
    _, resolved = check(recipe, episodes, dialogues)
    with local_server(recipe.environment) as url:
        tasks, held_out = asyncio.run(_choose_tasks(url, recipe))
    server = recipe.environment.url or (f"started with {recipe.environment.serve}" if url else "none")
    checks: dict[str, Any] = {"server": server, "tasks": len(tasks), "held_out_tasks": len(held_out)}
    import torch
    from transformers import AutoModelForCausalLM

    from ..tiny_models.pretrain import is_made
    from .memory_check import bytes_of_a_process, check_memory, sizes_of
    from .model_loading import BASE, open_model

    if recipe.model.make and not is_made(Path(recipe.out) / BASE, recipe.model.sizes, recipe.seed):
        return {**resolved, "checks": {**checks, "model": "not checked: the run makes it first"}}
    model = open_model(recipe, None, lambda phase, done, total: None)
    check_memory(recipe, model.config)
    with torch.device("meta"):
        sizes = sizes_of(AutoModelForCausalLM.from_config(model.config), recipe.lora)
    needed = bytes_of_a_process(recipe, sizes, world_size())
    memory = {
        "model": model.where,
        "parameters": sizes.base,
        "gib_per_gpu": round(needed / 2**30, 2),
        "gib_per_gpu_counts": f"{needed / sizes.base:.4g} bytes a parameter on every GPU, without activations and vLLM",
    }
    return {**resolved, "checks": {**checks, **memory}}


def run(
    recipe: Recipe,
    progress: Progress = lambda phase, done, total: None,
    *,
    dialogues: Mapping[str, WriteDialogues] | None = None,
    episodes: ReadEpisodes | None = None,
    trainer: Any = None,
) -> Result:
    """Train, and leave the model, metrics.jsonl, checkpoints and the resolved recipe in ``recipe.out``.

    An interrupted run resumes from its last checkpoint, with the losses that it would have had. A stopped run resumes
    once its limit allows it or ``stopped.json`` is removed; other limits do not make it another run.

    ``dialogues`` holds, for each environment that ``model.make`` may name, a function that writes what a tiny model is
    pretrained on. ``episodes`` reads the episodes that stage "sft" learns from. ``trainer`` replaces EtudeTrainer, or
    SolvedTrainer. Raise RecipeError, ChatError, UnsuitableModel, ReplayError, TrainingRunError and ServerError.
    """
    start = time.monotonic()
    solved, resolved = check(recipe, episodes, dialogues)
    check_devices()
    out = Path(recipe.out)
    with local_server(recipe.environment) as url:
        tasks, held_out = asyncio.run(_choose_tasks(url, recipe))
        with lock_run_dir(out) if rank() == 0 else nullcontext():
            progress("loading", 0, 0)
            from ..sft import trainer as sft
            from . import loop

            writer = (dialogues or {}).get(recipe.model.make)
            options: dict[str, Any] = {"trainer": trainer, "dialogues": writer, "progress": progress}
            if solved:
                built = sft.build(recipe, url, solved, **options)
            else:
                built = _build_rl(recipe, url, tasks, **options)
            if rank() == 0:
                write_json(out / RECIPE, resolved["recipe"])
                for outdated in (STOPPED, RESULT):
                    (out / outdated).unlink(missing_ok=True)
            result = loop.train(built, held_out, Result(str(out)), progress)
            result.seconds = time.monotonic() - start
            if rank() == 0:
                write_json(out / RESULT, asdict(result))
                write_report(out)
    return result


def _build_rl(recipe: Recipe, url: str, tasks: list[str], **options: Any) -> Any:
    if recipe.asynchronous.episodes:
        from ..asynchronous import build as asynchronous

        return asynchronous.build(recipe, url, tasks, **options)
    from . import builder

    return builder.build(recipe, url, tasks, **options)


async def _choose_tasks(url: str, recipe: Recipe) -> tuple[list[str], list[str]]:
    """Return the ids of the tasks to learn from, in the order of the run, and to evaluate on. Raise RecipeError."""
    if not url:
        return [], []
    split = recipe.environment.split
    async with Client(url) as client:
        tasks = [task.task_id for task in await client.tasks(split)]
        held_out: list[str] = []
        for name in HELD_OUT:
            if name != split and not held_out:
                held_out = [task.task_id for task in await client.tasks(name)]
    if not tasks:
        raise RecipeError(f"the server at {url} has no tasks in the split {split!r}; set environment.split")
    rng = random.Random(f"tasks {recipe.seed}")
    return rng.sample(tasks, min(recipe.environment.tasks or len(tasks), len(tasks))), held_out[
        : recipe.train.evaluate_tasks
    ]
