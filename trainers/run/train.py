"""``etude train``: runs a recipe. Whatever can be found wrong is found before weights are loaded, in this order: the
recipe with this machine and the files that it names, the folder, the server and its tasks, the tokenizer and its
template, the model's context and vocabulary.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import RecipeError
from ..recipe.recipe import Recipe, chooser_of
from ..replay.pairs import read_pairs
from ..report import write_report
from ..report.stored import STOPPED
from ..rollouts.local_server import DRILL, served
from ..sft.rows import ReadEpisodes, Solved, select
from ..sft.rows import plan as sft_plan
from .run_dir import check_folder, held, write_json

Progress = Callable[[str, int, int], None]
WriteDialogues = Callable[[Path, Recipe], None]
RECIPE, RESULT = "recipe.json", "result.json"
EVAL = "eval"


@dataclass(frozen=True)
class Evaluation:
    """``solved``: the share of valid episodes; ``error_turn_rate``: the share of their turns that erred."""

    episodes: int
    valid: int
    solved: float
    error_turn_rate: float
    reward: float
    turns: int = 0
    """Turns of the valid episodes."""


@dataclass
class Result:
    """What a run came to. ``stopped``: why the kill-switch ended it. ``interrupted``: the same command goes on."""

    out: str
    steps: int = 0
    stopped: str = ""
    interrupted: bool = False
    resumed_from: int = 0
    before: Evaluation | None = None
    after: Evaluation | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.stopped and not self.interrupted


def plan(recipe: Recipe, processes: int = 1, solved: Solved | None = None) -> dict[str, Any]:
    """The resolved run: the recipe, and what follows from it. Stage "sft" needs what it learns from, ``solved``.

    Raises RecipeError. Imports no torch.
    """
    if solved is not None:
        return sft_plan(recipe, processes, solved)
    train = recipe.train
    micro = train.micro * processes
    if train.prompts * train.group % micro:
        raise RecipeError(
            f"train.prompts x train.group = {train.prompts * train.group} episodes do not divide into micro-batches of "
            f"{train.micro} on {processes} processes"
        )
    if recipe.objective.kl == "k1_in_reward" and train.prompts % processes:
        raise RecipeError(
            f'objective.kl = "k1_in_reward" needs every group on one process: set train.prompts to a multiple of '
            f"{processes}"
        )
    batches = -(-train.steps // train.epochs_on_a_batch)
    return {
        "recipe": recipe.model_dump(mode="json"),
        "processes": processes,
        "episodes_a_batch": train.prompts * train.group,
        "gradient_accumulation": train.prompts * train.group // micro,
        "episodes": batches * train.prompts * train.group,
        "channels": [name for name in ("rlvr", "distillation", "replay") if getattr(recipe.channels, name).used],
    }


def check(recipe: Recipe, episodes: ReadEpisodes | None = None) -> tuple[Solved | None, dict[str, Any]]:
    """All that can be found wrong without a model and without a server of tasks: of a run, and of a dry run.

    Returns what stage "sft" learns from, and the plan. Raises RecipeError, ReplayError, RunError. Imports no torch.
    """
    _check_machine(recipe)
    _check_files(recipe)
    solved = select(recipe, episodes)
    resolved = plan(recipe, world(), solved)
    check_folder(recipe, Path(recipe.out))
    return solved, resolved


def run(
    recipe: Recipe,
    progress: Progress = lambda phase, done, total: None,
    *,
    dialogues: WriteDialogues | None = None,
    episodes: ReadEpisodes | None = None,
    trainer: Any = None,
) -> Result:
    """Train, and leave the model, metrics.jsonl, checkpoints and the resolved recipe in ``recipe.out``.

    A run that was interrupted goes on from its last checkpoint, with the losses that it would have had, and so does one
    that was stopped, once its limit allows it or ``stopped.json`` is gone; other limits are no other run. ``dialogues``
    writes what a model made here is pretrained on; ``episodes`` reads those that stage "sft" learns from; ``trainer``
    replaces EtudeTrainer, or SolvedTrainer. Raises RecipeError, ChatError, UnfitModel, ReplayError, RunError and
    ServerError in one line each.
    """
    started = time.monotonic()
    solved, resolved = check(recipe, episodes)
    _check_devices()
    out = Path(recipe.out)
    if recipe.model.make and dialogues is None:
        raise RecipeError("model.make needs dialogues to pretrain on: `etude train` writes them")
    with served(recipe.environment) as url:
        tasks, held_out = asyncio.run(_tasks(url, recipe))
        with held(out) if rank() == 0 else nullcontext():
            progress("loading", 0, 0)
            from ..sft import trainer as sft
            from . import builder as building

            parts: dict[str, Any] = {"trainer": trainer, "dialogues": dialogues, "progress": progress}
            made = sft.build(recipe, url, solved, **parts) if solved else building.build(recipe, url, tasks, **parts)
            if rank() == 0:
                write_json(out / RECIPE, resolved["recipe"])
                for ended in (STOPPED, RESULT):
                    (out / ended).unlink(missing_ok=True)
            result = building.train(made, held_out, Result(str(out)), progress)
            result.seconds = time.monotonic() - started
            if rank() == 0:
                write_json(out / RESULT, asdict(result))
                write_report(out)
    return result


def world() -> int:
    """Processes of this run, as torchrun tells them."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this one."""
    return int(os.environ.get("RANK", "0"))


def summary(played: Sequence[Any]) -> Evaluation:
    """Of rollouts."""
    valid = [rollout for rollout in played if rollout.reward.valid]
    turns = sum(len(rollout.turns) for rollout in valid)
    erred = sum(len({error.turn for error in rollout.error_turns}) for rollout in valid)
    return Evaluation(
        episodes=len(played),
        valid=len(valid),
        solved=sum(rollout.reward.value >= 1 for rollout in valid) / max(len(valid), 1),
        error_turn_rate=erred / max(turns, 1),
        reward=sum(rollout.reward.value for rollout in valid) / max(len(valid), 1),
        turns=turns,
    )


# --- what is checked first ---------------------------------------------------------------------------------------


def _check_machine(recipe: Recipe) -> None:
    for name in ("torch", "transformers", "trl", "datasets", "accelerate"):
        if importlib.util.find_spec(name) is None:
            raise RecipeError(f"training needs {name}: pip install 'etude[train]'")
    if recipe.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise RecipeError("tensorboard = true needs tensorboard: pip install 'etude[train]'")
    if recipe.generation.vllm != "off" and importlib.util.find_spec("vllm") is None:
        raise RecipeError("generation.vllm needs vllm: pip install 'etude[vllm]'")
    if recipe.generation.vllm == "server" and world() > 1:  # there TRL gathers every request, and ours differ by rank
        raise RecipeError('generation.vllm = "server" is for one process: with several set "colocate"')
    if recipe.generation.vllm == "server":
        _check_vllm(recipe.generation.vllm_url.rstrip("/"), recipe.generation.max_ids)


def _check_devices() -> None:
    """A process of its own has one device: TRL's trainers refuse torch's DataParallel, late."""
    import torch

    found = torch.cuda.device_count()
    if found > 1 and world() == 1 and "LOCAL_RANK" not in os.environ:
        raise RecipeError(
            f"one process sees {found} GPUs: set CUDA_VISIBLE_DEVICES=0, or start {found} of them with "
            f"`torchrun --nproc-per-node {found} --shutdown-timeout 3600 -m etude.cli train RECIPE.toml`"
        )


def _check_files(recipe: Recipe) -> None:
    name, serve = recipe.model.name, recipe.environment.serve
    path = name.startswith(("/", "./", "../", "~")) or name.count("/") > 1  # what is no path may be a name on the Hub
    if path and not Path(os.path.expanduser(name), "config.json").is_file():
        raise RecipeError(f"model.name: there is no model in {name}")
    if serve not in ("", DRILL) and not Path(serve).exists():
        raise RecipeError(f"environment.serve: there is no folder {serve}: `etude generate` makes tasks")
    chooser_of(recipe)
    if recipe.channels.replay.used:
        if not Path(recipe.replay.pairs).is_file():
            raise RecipeError(f"replay.pairs: there is no file {recipe.replay.pairs}: `etude replay` writes one")
        read_pairs(Path(recipe.replay.pairs))


def _check_vllm(url: str, room: int) -> None:
    """What TRL asks of the server, asked before weights load; and that an episode of ``room`` ids fits."""
    import httpx

    start = "start it with `trl vllm-serve --model MODEL`"
    try:
        httpx.get(f"{url}/health", timeout=10.0).raise_for_status()
        told = httpx.get(f"{url}/server_info", params={"config_format": "json"}, timeout=10.0)
        models = httpx.get(f"{url}/v1/models", timeout=10.0).raise_for_status().json()["data"]
        config = {} if told.status_code == 404 else told.raise_for_status().json()["vllm_config"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError) as error:
        raise RecipeError(f"generation.vllm_url: no vLLM server answers at {url} ({error}): {start}") from None
    if not config.get("weight_transfer_config"):
        raise RecipeError(f"generation.vllm_url: the server at {url} takes no weights: {start}")
    if (mode := config.get("model_config", {}).get("logprobs_mode")) != "processed_logprobs":
        raise RecipeError(f"generation.vllm_url: the server at {url} gives {mode}, not processed_logprobs: {start}")
    least = min((model["max_model_len"] for model in models if model.get("max_model_len")), default=room)
    if least < room:
        raise RecipeError(
            f"generation.max_ids ({room}) is more than the server at {url} reads (--max-model-len {least}): set it to "
            f"{least} or less"
        )


async def _tasks(url: str, recipe: Recipe) -> tuple[list[str], list[str]]:
    """Ids of what is learned from, in the run's order, and of what it is evaluated on. Raises RecipeError."""
    if not url:
        return [], []
    async with Client(url) as client:
        learned = [task.task_id for task in await client.tasks(recipe.environment.split)]
        held_out = [task.task_id for task in await client.tasks(EVAL)] if recipe.environment.split != EVAL else []
    if not learned:
        raise RecipeError(f"the server at {url} has no tasks in the split {recipe.environment.split!r}")
    chance = random.Random(f"tasks {recipe.seed}")
    chosen = chance.sample(learned, min(recipe.environment.tasks, len(learned)))
    return chosen, held_out[: recipe.train.evaluate_tasks]


def order(tasks: Sequence[str], number: int, seed: int) -> list[Mapping[str, str]]:
    """``number`` tasks as arguments of ``reset``: all of them, shuffled, then all shuffled anew, and so on."""
    chance = random.Random(f"order {seed}")
    found: list[Mapping[str, str]] = []
    while len(found) < number:
        found += [{"task_id": name} for name in chance.sample(list(tasks), len(tasks))]
    return found[:number]
