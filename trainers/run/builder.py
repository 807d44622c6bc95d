"""Builder of a run: the recipe's parts, the arguments of TRL's trainers, and the callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig

from ..adapters import WithoutAdapters
from ..distillation.distiller import Settings
from ..distillation.hidden_states import check_head
from ..distillation.teachers import Teacher
from ..distributed import world_size
from ..grpo.objectives import objective
from ..grpo.parts import ChannelWeights, Parts
from ..grpo.trainer import EtudeTrainer
from ..recipe.load import load_chooser
from ..recipe.recipe import Recipe
from ..replay.channel.loss import open_replay
from ..report.run_files import METRICS, read_metrics
from ..rollouts.dataset_rows import repeat_shuffled, reset_rows
from ..rollouts.session_pool import Limits
from ..sharded.access import causal_model, reshard_heads
from .callbacks import MetricsWriter, PolicyMonitor
from .checkpoints import CHECKPOINTS, Interrupt, StateSaver
from .episode_records import EpisodeRecords
from .kill_switch import KillSwitch
from .memory_check import check_memory
from .model_loading import LoadableModel, open_model
from .optimizers import optimizer_arguments
from .records import Progress, WriteDialogues, plan_rl

_DDP_TIMEOUT_S = 6 * 3600
"""Time that ranks wait for the one with the longest episodes; torch's 30 minutes may be one slow grading."""


@dataclass(frozen=True)
class Callbacks:
    """Callbacks that a run reads after training."""

    saver: StateSaver
    switch: KillSwitch
    interrupt: Interrupt


@dataclass(frozen=True)
class BuiltRun:
    """Run that can start."""

    recipe: Recipe
    trainer: Any
    """EtudeTrainer, or the trainer of stage "sft"."""
    tokenizer: Any
    callbacks: Callbacks
    warnings: list[str]
    moe: bool
    """Whether the model is a mixture of experts."""
    arguments: Mapping[str, Any]
    """Arguments of the chat template."""


def build(
    recipe: Recipe,
    url: str,
    tasks: Sequence[str],
    *,
    trainer: Any,
    dialogues: WriteDialogues | None,
    progress: Progress,
) -> BuiltRun:
    """Build a run of stage "rl"; weights are loaded last. ``trainer`` replaces EtudeTrainer if it is given.

    Raise RecipeError, ChatError, UnsuitableModel and ReplayError.
    """
    out = Path(recipe.out)
    loadable = open_model(recipe, dialogues, progress)
    check_memory(recipe, loadable.config)
    replay, warnings = open_replay_channel(loadable)
    arguments = GRPOConfig(**grpo_arguments(recipe, out))  # before weights, because it joins the processes
    model = loadable.load_weights()
    inner = causal_model(model)
    first = Teacher("frozen", source=_source_of_first_weights(loadable, model))
    teacher = start_teacher(recipe, inner, first)
    reference = _start_reference(recipe, inner, first)
    if teacher or replay or reference or recipe.safety.kl_to_base:
        check_head(inner)
        reshard_heads(inner)
    rows = repeat_shuffled(tasks, max(plan_rl(recipe).episodes // recipe.train.group, len(tasks)), recipe.seed)
    built = (trainer or EtudeTrainer)(
        model,
        parts_of(loadable, url, teacher, replay, reference),
        args=arguments,
        train_dataset=Dataset.from_list(reset_rows(rows)),
        processing_class=loadable.tokenizer,
        **optimizer_arguments(recipe, model),
    )
    built.load_weights = loadable.load_whole
    if replay is not None:  # on the device where the trainer has put the model
        with built.accelerator.autocast():
            replay.prepare(causal_model(built.accelerator.unwrap_model(built.model)))
    safety = recipe.safety
    monitor = PolicyMonitor(built, teacher, drift=safety.teacher_drift > 0, kl=safety.kl_to_base > 0, first=first)
    callbacks = add_callbacks(built, recipe, StateSaver(teacher, replay, monitor), progress, monitor)
    return BuiltRun(recipe, built, loadable.tokenizer, callbacks, warnings, loadable.moe, loadable.arguments)


def add_callbacks(trainer: Any, recipe: Recipe, saver: StateSaver, progress: Progress, *first: Any) -> Callbacks:
    """Add metrics, kill switch, interrupt and checkpoints to a trainer, after the callbacks ``first``."""
    out = Path(recipe.out)
    trainer.remove_callback(PrinterCallback)
    hours = max((row.get("cost/hours", 0.0) for row in read_metrics(out / METRICS)), default=0.0)
    switch = KillSwitch(recipe.safety, out, every=recipe.train.epochs_on_a_batch, hours=hours)
    callbacks = Callbacks(saver, switch, Interrupt(recipe.train.epochs_on_a_batch))
    prompts = recipe.train.prompts if recipe.stage == "rl" else 0
    metrics = MetricsWriter(out, progress, prompts=prompts, tensorboard=recipe.tensorboard, costs=switch.costs)
    if recipe.stage == "rl" and recipe.record_episodes:
        number = recipe.record_episodes
        records = EpisodeRecords(out, lambda: trainer.last_rollouts(), number, lambda: trainer.divergences())
        first = (*first, records)
    # The saver comes before the metrics: a checkpoint is complete before its report is written, which may fail.
    for callback in (*first, saver, metrics, switch, callbacks.interrupt):
        trainer.add_callback(callback)
    return callbacks


def open_replay_channel(loadable: LoadableModel) -> tuple[Any, list[str]]:
    """Return the replay channel, None if it is not used, and warnings about pairs that were left out."""
    recipe = loadable.recipe
    if not recipe.channels.replay.used:
        return None, []
    options = recipe.replay
    replay, skipped = open_replay(
        Path(options.pairs),
        loadable.tokenizer,
        max_ids=recipe.generation.max_ids,
        template=dict(loadable.arguments),
        weights=dict(zip(options.losses, options.weights, strict=True)),
        batch=options.batch,
        beta=options.beta,
        flipped=options.flipped,
    )
    return replay, [f"{number} pairs left out: {reason}" for reason, number in skipped.items()]


def _source_of_first_weights(loadable: LoadableModel, model: Any) -> Callable[[Any], Any] | None:
    """Return how to get a model with the first weights: adapters off, or sharded weights loaded again; None to copy."""
    if loadable.recipe.lora.rank:
        return lambda student: WithoutAdapters(model)
    return (lambda student: loadable.load_whole()) if loadable.recipe.sharding.shards else None


def start_teacher(recipe: Recipe, model: Any, first: Teacher) -> Teacher | None:
    """Return the teacher of the distillation, None if the channel is not used; ``first`` has the first weights."""
    if not recipe.channels.distillation.used:
        return None
    options = recipe.distillation
    frozen = options.teacher == "frozen"
    source = first.source if recipe.sharding.shards else None
    teacher = first if frozen else Teacher(options.teacher, every=options.every, rate=options.rate, source=source)
    teacher.start(model)
    return teacher


def _start_reference(recipe: Recipe, model: Any, first: Teacher) -> Teacher | None:
    """Return the first weights for k1. A resumed run loads them too."""
    if recipe.objective.kl != "k1_in_reward":
        return None
    first.model(model)
    return first


def parts_of(
    loadable: LoadableModel, url: str, teacher: Teacher | None, replay: Any, reference: Teacher | None = None
) -> Parts:
    """Return the parts of the trainer that the recipe describes."""
    recipe = loadable.recipe
    options, generation, channels = recipe.distillation, recipe.generation, recipe.channels
    return Parts(
        url=url,
        chat=loadable.chat,
        objective=objective(recipe.objective.name),
        effort=recipe.effort,
        channels=ChannelWeights(channels.rlvr, channels.distillation, channels.replay),
        distillation=Settings(
            beta=options.beta,
            normalised=options.normalised,
            estimator=options.estimator,
            top_k=options.top_k,
            temperature=generation.temperature,
            clip=options.clip,
            gate=options.gate,
        ),
        teacher=teacher,
        replay=replay,
        limits=Limits(generation.max_ids, generation.max_turn_ids),
        system=recipe.environment.system,
        cap=options.cap,
        recovery=options.recovery,
        chooser=load_chooser(recipe),
        k1_weight=recipe.objective.kl_weight if recipe.objective.kl == "k1_in_reward" else 0.0,
        reference=reference,
        gradients_every=recipe.train.gradients_every,
        patience=None if generation.lockstep else 1.0,
    )


def grpo_arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Return the arguments of GRPOConfig. The data are in the order of the steps, so a resumed run finds its place."""
    train = recipe.train
    return {
        **shared_arguments(recipe, out),
        **generation_arguments(recipe),
        "num_generations": train.group,
        "gradient_accumulation_steps": plan_rl(recipe, world_size()).gradient_accumulation,
        "num_iterations": train.epochs_on_a_batch,
        "shuffle_dataset": False,
        "beta": recipe.objective.kl_weight if recipe.objective.kl == "k3" else 0.0,
        **objective(recipe.objective.name).arguments,
    }


def shared_arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Return the arguments that the trainers of both stages share."""
    train = recipe.train
    return {
        "output_dir": str(out / CHECKPOINTS),
        "seed": recipe.seed,
        "max_steps": train.steps,
        "per_device_train_batch_size": train.micro,
        "learning_rate": train.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": int(train.warmup * train.steps),
        "weight_decay": train.weight_decay,
        "max_grad_norm": train.clip_grad,
        "bf16": recipe.model.dtype == "bfloat16",
        "use_cpu": not torch.cuda.is_available(),
        "ddp_timeout": _DDP_TIMEOUT_S,
        "gradient_checkpointing": train.gradient_checkpointing,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # it would log a NaN loss as 0
        "save_strategy": "steps",
        "save_steps": train.save_every,
        "save_total_limit": 2,
        "report_to": [],
        "disable_tqdm": True,
    }


def generation_arguments(recipe: Recipe) -> dict[str, Any]:
    """Return the arguments of GRPOConfig that control sampling."""
    generation = recipe.generation
    arguments: dict[str, Any] = {
        "max_completion_length": generation.max_ids,
        "temperature": generation.temperature,
    }
    if generation.vllm != "off":
        # Over thousands of tokens, the product of ratios masks or explodes whole episodes: truncate each token's.
        arguments |= {
            "use_vllm": True,
            "vllm_mode": generation.vllm,
            "vllm_importance_sampling_mode": "token_truncate",
        }
    if generation.vllm == "server":
        arguments["vllm_server_base_url"] = generation.vllm_url
    elif generation.vllm == "colocate":
        arguments["vllm_max_model_length"] = generation.max_ids
    return arguments
