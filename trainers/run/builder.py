"""A recipe's parts, built and put together; the loop is transformers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig

from ..distillation import distiller as distillation
from ..distillation.hidden_states import check_head
from ..distillation.teachers import Teacher
from ..grpo import objectives
from ..grpo.generation import seeded
from ..grpo.trainer import Channels, EtudeTrainer, Parts, reset_rows
from ..recipe.recipe import Recipe, chooser_of
from ..replay.loss import open_replay
from ..rollouts.session_pool import Limits
from .callbacks import METRICS, Metrics, Watch, read_metrics
from .checkpoints import CHECKPOINTS, Interrupt, Keeper, kept, last_checkpoint, resume, step_of, writing
from .kill_switch import KillSwitch
from .memory_check import check_memory
from .metrics_summary import warnings_of
from .model_loading import Start, keep_arguments, open_model
from .run_dir import read_json, write_json
from .train import Evaluation, Progress, Result, WriteDialogues, order, plan, rank, summary, world

MODEL, BEFORE = "model", "before.json"
_PATIENCE_S = 6 * 3600
"""Ranks wait that long for the one whose episodes take longest; torch's 30 minutes are one slow grade."""


@dataclass(frozen=True)
class Callbacks:
    """What the loop is asked for afterwards."""

    keeper: Keeper
    switch: KillSwitch
    interrupt: Interrupt


@dataclass(frozen=True)
class Made:
    """A run that can begin. ``arguments`` go to the chat template."""

    recipe: Recipe
    trainer: Any
    tokenizer: Any
    callbacks: Callbacks
    warnings: list[str]
    moe: bool
    arguments: Mapping[str, Any]


def build(
    recipe: Recipe,
    url: str,
    tasks: Sequence[str],
    *,
    trainer: Any,
    dialogues: WriteDialogues | None,
    progress: Progress,
) -> Made:
    """Tokenizer and template first, weights last. Raises RecipeError, ChatError, UnfitModel, ReplayError."""
    out = Path(recipe.out)
    start = open_model(recipe, dialogues, progress)
    check_memory(recipe, start.config)
    replay, warnings = _replay(start)
    model = start.weights()
    teacher = _teacher(recipe, model)
    reference = _reference(recipe, model, teacher)
    if teacher or replay or reference or recipe.safety.kl_to_base:
        check_head(model)
    parts = _parts(start, url, teacher, replay, reference)
    rows = order(tasks, max(plan(recipe)["episodes"] // recipe.train.group, len(tasks)), recipe.seed)
    made = (trainer or EtudeTrainer)(
        model,
        parts,
        args=GRPOConfig(**_arguments(recipe, out)),
        train_dataset=Dataset.from_list(reset_rows(rows)),
        processing_class=start.tokenizer,
    )
    if replay is not None:  # where the model is now, which need not be where it was loaded
        with made.accelerator.autocast():
            replay.prepare(made.accelerator.unwrap_model(made.model))
    watch = Watch(made, teacher, drift=recipe.safety.teacher_drift > 0, kl=recipe.safety.kl_to_base > 0)
    callbacks = watched(made, recipe, Keeper(teacher, replay, watch), progress, watch)
    return Made(recipe, made, start.tokenizer, callbacks, warnings, start.moe, start.arguments)


def train(made: Made, held_out: Sequence[str], result: Result, progress: Progress) -> Result:
    """Evaluate, train, evaluate, save."""
    trainer, out = made.trainer, Path(made.recipe.out)
    try:
        checkpoint = last_checkpoint(out)
        result.before = _before(made, held_out, out, progress)
        if checkpoint is not None:
            made.callbacks.keeper.load(checkpoint, trainer.model)
            result.resumed_from = step_of(checkpoint)
            progress(f"going on behind step {result.resumed_from}", 0, 0)
        with made.callbacks.interrupt.listening(), kept(trainer, out):
            resume(trainer, checkpoint)
        result.steps = trainer.state.global_step
        result.stopped = str(made.callbacks.switch.stop or "")
        result.interrupted = made.callbacks.interrupt.heard and not result.stopped
        rows = read_metrics(out / METRICS)
        result.warnings = [*made.warnings, *warnings_of(rows, made.recipe.model_dump(), moe=made.moe)]
        if not result.interrupted and not made.callbacks.switch.poisoned:
            with writing():
                trainer.save_model(str(out / MODEL))
            made.tokenizer.save_pretrained(out / MODEL)
            if rank() == 0:
                keep_arguments(out / MODEL, made.arguments)
            result.after = evaluate(made, held_out, progress) if not result.stopped else None
    finally:
        trainer.close()
    return result


def evaluate(made: Made, tasks: Sequence[str], progress: Progress) -> Evaluation | None:
    """An episode of each task, played by the policy as it samples in training; None without tasks."""
    if not tasks:
        return None
    progress("evaluating", 0, 0)
    trainer, processes = made.trainer, world()
    training = trainer.model.training
    trainer.model.eval()
    mine = list(tasks)[rank() :: processes]
    seeded(made.recipe.seed)
    with trainer.accelerator.autocast():  # as in training, whose first step wraps the model in it
        played = trainer.play([{"task_id": task} for task in mine])
    trainer.model.train(training)
    if processes > 1:
        from accelerate.utils import gather_object

        played = gather_object(played)
    return summary(played)


def _before(made: Made, held_out: Sequence[str], out: Path, progress: Progress) -> Evaluation | None:
    """Measured once for a run, however often it is resumed."""
    kept = out / BEFORE
    if kept.exists():
        found = read_json(kept)
        return Evaluation(**found) if found else None
    before = evaluate(made, held_out, progress)
    if rank() == 0:
        write_json(kept, asdict(before) if before else None)
    return before


def _replay(start: Start) -> tuple[Any, list[str]]:
    recipe = start.recipe
    if not recipe.channels.replay.used:
        return None, []
    options = recipe.replay
    replay, left = open_replay(
        Path(options.pairs),
        start.tokenizer,
        max_ids=recipe.generation.max_ids,
        template=dict(start.arguments),
        weights=dict(zip(options.losses, options.weights, strict=True)),
        batch=options.batch,
        beta=options.beta,
        flipped=options.flipped,
    )
    return replay, [f"{number} pairs left out: {reason}" for reason, number in left.items()]


def _teacher(recipe: Recipe, model: Any) -> Teacher | None:
    if not recipe.channels.distillation.used:
        return None
    options = recipe.distillation
    teacher = Teacher(options.teacher, every=options.every, rate=options.rate)
    teacher.start(model)
    return teacher


def _reference(recipe: Recipe, model: Any, teacher: Teacher | None) -> Teacher | None:
    """The first weights, for k1: a frozen teacher's, or a copy of their own. A resumed run starts from them too."""
    if recipe.objective.kl != "k1_in_reward":
        return None
    if teacher is not None and teacher.kind == "frozen":
        return teacher
    reference = Teacher("frozen")
    reference.start(model)
    return reference


def _parts(start: Start, url: str, teacher: Teacher | None, replay: Any, reference: Teacher | None) -> Parts:
    recipe = start.recipe
    options, room = recipe.distillation, recipe.generation
    return Parts(
        url=url,
        chat=start.chat,
        objective=objectives.objective(recipe.objective.name),
        channels=Channels(recipe.channels.rlvr, recipe.channels.distillation, recipe.channels.replay),
        distillation=distillation.Settings(
            beta=options.beta,
            normalised=options.normalised,
            estimator=options.estimator,
            top_k=options.top_k,
            temperature=room.temperature,
            clip=options.clip,
            gate=options.gate,
        ),
        teacher=teacher,
        replay=replay,
        limits=Limits(room.max_ids, room.max_turn_ids),
        system=recipe.environment.system,
        cap=options.cap,
        recovery=options.recovery,
        chooser=chooser_of(recipe),
        k1=recipe.objective.kl_weight if recipe.objective.kl == "k1_in_reward" else 0.0,
        reference=reference,
        gradients_every=recipe.train.gradients_every,
    )


def _arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """GRPOConfig's. The data are in the order of the steps, once: a resumed run finds its place in them."""
    train = recipe.train
    return {
        **shared_arguments(recipe, out),
        **generation_arguments(recipe),
        "num_generations": train.group,
        "gradient_accumulation_steps": plan(recipe, world())["gradient_accumulation"],
        "num_iterations": train.epochs_on_a_batch,
        "shuffle_dataset": False,
        "beta": recipe.objective.kl_weight if recipe.objective.kl == "k3" else 0.0,
        **objectives.objective(recipe.objective.name).arguments,
    }


def shared_arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Any stage's, for its trainer's configuration."""
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
        "ddp_timeout": _PATIENCE_S,
        "gradient_checkpointing": train.gradient_checkpointing,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is no number would be logged as 0
        "save_strategy": "steps",
        "save_steps": train.save_every,
        "save_total_limit": 2,
        "report_to": [],
        "disable_tqdm": True,
    }


def generation_arguments(recipe: Recipe) -> dict[str, Any]:
    """Of whatever plays episodes."""
    room = recipe.generation
    given: dict[str, Any] = {"max_completion_length": room.max_ids, "temperature": room.temperature}
    if room.vllm != "off":
        # Over thousands of tokens the product of ratios masks or explodes whole episodes; each token's is truncated.
        given |= {"use_vllm": True, "vllm_mode": room.vllm, "vllm_importance_sampling_mode": "token_truncate"}
        beside = room.vllm == "server"
        given |= {"vllm_server_base_url": room.vllm_url} if beside else {"vllm_max_model_length": room.max_ids}
    return given


def watched(trainer: Any, recipe: Recipe, keeper: Keeper, progress: Progress, *first: Any) -> Callbacks:
    """Metrics, kill-switch, interrupt and checkpoints for a trainer, behind the callbacks ``first``."""
    out = Path(recipe.out)
    trainer.remove_callback(PrinterCallback)
    hours = max((row.get("cost/hours", 0.0) for row in read_metrics(out / METRICS)), default=0.0)
    switch = KillSwitch(recipe.safety, out, every=recipe.train.epochs_on_a_batch, hours=hours)
    found = Callbacks(keeper, switch, Interrupt(recipe.train.epochs_on_a_batch))
    board, prompts = recipe.tensorboard, recipe.train.prompts if recipe.stage == "rl" else 0
    metrics = Metrics(out, progress, prompts=prompts, board=board, costs=switch.costs)
    # A checkpoint is whole before its report is written, which may fail.
    for callback in (*first, found.keeper, metrics, found.switch, found.interrupt):
        trainer.add_callback(callback)
    return found
