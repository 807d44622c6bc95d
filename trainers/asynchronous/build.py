"""Builder of an asynchronous run of ``etude train``: the worker, the arguments of TRL's trainer, and the channels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig

from ...errors import RecipeError
from ..distillation.hidden_states import check_head
from ..distillation.teachers import Teacher
from ..integrations.async_grpo import OwnedSessionFactory
from ..integrations.completions import Completions
from ..integrations.harness import harness_rows
from ..recipe.recipe import Recipe
from ..rollouts.dataset_rows import repeat_shuffled
from ..run.builder import (
    BuiltRun,
    add_callbacks,
    open_replay_channel,
    parts_of,
    shared_arguments,
    start_teacher,
)
from ..run.callbacks import PolicyMonitor
from ..run.checkpoints import StateSaver
from ..run.memory_check import check_memory
from ..run.model_loading import LoadableModel, open_model
from ..run.optimizers import optimizer_arguments
from ..run.preflight import served_model
from ..run.records import Progress, WriteDialogues, plan_rl
from .attention import check_attention
from .trainer import AsyncEtudeTrainer
from .worker import EpisodeWorker


def build(
    recipe: Recipe,
    url: str,
    tasks: Sequence[str],
    *,
    trainer: Any,
    dialogues: WriteDialogues | None,
    progress: Progress,
) -> BuiltRun:
    """Build an asynchronous run of stage "rl". ``trainer`` replaces AsyncEtudeTrainer if it is given.

    Raise RecipeError, ChatError, UnsuitableModel and ReplayError.
    """
    loadable = open_model(recipe, dialogues, progress)
    if loadable.adapter:
        raise RecipeError(
            "model.name: asynchronous training loads whole weights, but this folder has an adapter; merge it first"
        )
    check_attention(loadable.config)
    check_memory(recipe, loadable.config)
    replay, warnings = open_replay_channel(loadable)
    served = served_model(recipe.generation.vllm_url)
    rows = repeat_shuffled(tasks, max(plan_rl(recipe).episodes // recipe.train.group, len(tasks)), recipe.seed)
    dataset = Dataset.from_list(harness_rows(rows))
    arguments = AsyncGRPOConfig(**async_arguments(recipe, Path(recipe.out)))
    built = (trainer or AsyncEtudeTrainer)(
        loadable.where,
        parts_of(loadable, url, None, replay),
        policy=Completions(recipe.generation.vllm_url, served, {"temperature": recipe.generation.temperature}),
        args=arguments,
        train_dataset=dataset,
        processing_class=loadable.tokenizer,
        rollout_worker=episode_worker(loadable, url, served, dataset),
    )
    # TRL has loaded the policy with its own attention, so the first weights are loaded again.
    first = Teacher("frozen", source=lambda student: loadable.load_whole())
    teacher = built.parts.teacher = start_teacher(recipe, built.model, first)
    safety = recipe.safety
    if teacher or replay or safety.kl_to_base:
        check_head(built.model)
    built.optimizer, built.lr_scheduler = optimizer_arguments(recipe, built.model).get("optimizers", (None, None))
    if replay is not None:
        with built.accelerator.autocast():
            replay.prepare(built.model)
    monitor = PolicyMonitor(built, teacher, drift=safety.teacher_drift > 0, kl=safety.kl_to_base > 0, first=first)
    callbacks = add_callbacks(built, recipe, StateSaver(teacher, replay, monitor), progress, monitor)
    return BuiltRun(recipe, built, loadable.tokenizer, callbacks, warnings, loadable.moe, loadable.arguments)


def async_arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Return the arguments of AsyncGRPOConfig. A step has as many episodes as one of a synchronous run."""
    table, generation, train = recipe.asynchronous, recipe.generation, recipe.train
    return {
        **shared_arguments(recipe, out),
        "num_generations": train.group,
        "gradient_accumulation_steps": plan_rl(recipe).gradient_accumulation,
        "dtype": "float32",
        "temperature": generation.temperature,
        "max_completion_length": generation.max_ids,
        "vllm_server_base_url": generation.vllm_url,
        "token_budget": 0,  # a fixed number of episodes in each micro-batch
        "max_inflight_tasks": table.episodes,
        "max_staleness": table.max_staleness,
        "queue_maxsize": table.queue,
        "weight_sync_steps": table.sync_every,
    }


def episode_worker(loadable: LoadableModel, url: str, served: str, dataset: Any) -> EpisodeWorker:
    """Return the worker that plays the dataset's tasks on the server ``url`` with the model ``served`` on vLLM."""
    recipe = loadable.recipe
    generation, table = recipe.generation, recipe.asynchronous
    factory = functools.partial(
        OwnedSessionFactory,
        url,
        policy_url=generation.vllm_url,
        model=served,
        tokenizer=loadable.where,
        template=dict(loadable.arguments),
        max_ids=generation.max_ids,
        max_turn_ids=generation.max_turn_ids,
        system=recipe.environment.system,
    )
    eos = loadable.tokenizer.eos_token_id
    return EpisodeWorker(
        harness_session_factory=factory,
        model_name=loadable.where,
        dataset=dataset,
        processing_class=loadable.tokenizer,
        eos_token_ids=[] if eos is None else [eos],
        num_generations=recipe.train.group,
        max_inflight_tasks=table.episodes,
        queue_maxsize=table.queue,
        vllm_server_url=generation.vllm_url,
        max_tokens=generation.max_turn_ids,
        temperature=generation.temperature,
    )
