"""A recipe's parts, built and put together; the loop is transformers'."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from transformers.trainer_utils import set_seed
from transformers.utils import logging as hf_logging
from trl.trainer.grpo_config import GRPOConfig

from . import distillation, objectives
from .chat import TemplateChat
from .checkpoints import CHECKPOINTS, Interrupt, Keeper, last_checkpoint
from .forwards import check_model
from .metrics import METRICS, Metrics, Watch, read_metrics
from .playing import Limits
from .recipe import Recipe, RecipeError, chooser_of
from .replay.loss import open_replay
from .safety import KillSwitch
from .small.pretrain import is_made, make_base
from .teachers import Teacher
from .train import Evaluation, Progress, Result, WriteDialogues, order, plan, rank, summary, warnings_of, world
from .trainer import Channels, EtudeTrainer, Parts, reset_rows

BASE, MODEL, BEFORE = "base", "model", "before.json"


@dataclass(frozen=True)
class Callbacks:
    """What the loop is asked for afterwards."""

    keeper: Keeper
    switch: KillSwitch
    interrupt: Interrupt


@dataclass(frozen=True)
class Made:
    """A run that can begin."""

    recipe: Recipe
    trainer: Any
    tokenizer: Any
    callbacks: Callbacks
    warnings: list[str]
    moe: bool


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
    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    where = _base(recipe, out, dialogues, progress)
    tokenizer, arguments = _tokenizer(where), _template(recipe)
    TemplateChat(tokenizer, _unused, arguments=arguments)
    config = _config(where)
    replay, warnings = _replay(recipe, tokenizer, arguments)
    set_seed(recipe.seed)
    model = AutoModelForCausalLM.from_pretrained(where, config=config, dtype=getattr(torch, recipe.model.dtype))
    teacher = _teacher(recipe, model)
    if replay is not None:
        replay.prepare(model)
    parts = _parts(recipe, url, tokenizer, arguments, teacher, replay)
    rows = order(tasks, recipe.train.prompts * (-(-recipe.train.steps // recipe.train.epochs_on_a_batch)), recipe.seed)
    made = (trainer or EtudeTrainer)(
        model,
        parts,
        args=GRPOConfig(**_arguments(recipe, out)),
        train_dataset=Dataset.from_list(reset_rows(rows)),
        processing_class=tokenizer,
    )
    callbacks = _watch(recipe, made, teacher, replay, progress)
    return Made(recipe, made, tokenizer, callbacks, warnings, _is_moe(config))


def train(made: Made, held_out: Sequence[str], result: Result, progress: Progress) -> Result:
    """Evaluate, train, evaluate, save."""
    trainer, out = made.trainer, Path(made.recipe.out)
    checkpoint = last_checkpoint(out)
    try:
        result.before = _before(made, held_out, out, progress)
        if checkpoint is not None:
            made.callbacks.keeper.load(checkpoint, trainer.model)
            result.resumed_from = int(checkpoint.name.rpartition("-")[2])
        with made.callbacks.interrupt.listening():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        result.steps = trainer.state.global_step
        result.stopped = str(made.callbacks.switch.stop or "")
        result.interrupted = made.callbacks.interrupt.heard and not result.stopped
        result.warnings = [*made.warnings, *warnings_of(read_metrics(out / METRICS), made.moe)]
        if not result.interrupted:
            trainer.save_model(str(out / MODEL))
            made.tokenizer.save_pretrained(out / MODEL)
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
    torch.manual_seed(made.recipe.seed)
    played = trainer.play([{"task_id": task} for task in mine]) if mine else []
    trainer.model.train(training)
    if processes > 1:
        from accelerate.utils import gather_object

        played = gather_object(played)
    return summary(played)


def _before(made: Made, held_out: Sequence[str], out: Path, progress: Progress) -> Evaluation | None:
    """Measured once for a run, however often it is resumed."""
    kept = out / BEFORE
    if kept.exists():
        found = json.loads(kept.read_text())
        return Evaluation(**found) if found else None
    before = evaluate(made, held_out, progress)
    if rank() == 0:
        kept.write_text(json.dumps(asdict(before) if before else None))
    return before


def _base(recipe: Recipe, out: Path, dialogues: WriteDialogues | None, progress: Progress) -> str:
    """Where the first weights are; a small model is made there when it is not there yet."""
    if not recipe.model.make:
        return str(Path(recipe.model.name).expanduser()) if recipe.model.name[:1] in "./~" else recipe.model.name
    folder = out / BASE
    if not is_made(folder, recipe.model.sizes, recipe.seed):
        assert dialogues is not None
        if world() > 1:
            raise RecipeError("model.make is for one process: make it there, and give its folder as model.name")
        out.mkdir(parents=True, exist_ok=True)
        rows = out / "dialogues.jsonl"
        progress("dialogues", 0, 0)
        dialogues(rows, recipe)
        make_base(rows, recipe.model.sizes, folder, seed=recipe.seed, progress=progress)
    return str(folder)


def _tokenizer(where: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.name: no tokenizer can be read from {where}: {_line(error)}") from None
    if getattr(tokenizer, "pad_token", None) is None and getattr(tokenizer, "eos_token", None) is not None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _config(where: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.name: no model can be read from {where}: {_line(error)}") from None
    check_model(config)
    return config


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


async def _unused(ids: Sequence[int], room: int) -> Any:
    raise AssertionError("only looked at")


def _template(recipe: Recipe) -> Mapping[str, Any]:
    return {**({"enable_thinking": False} if recipe.model.make else {}), **recipe.model.template}


def _replay(recipe: Recipe, tokenizer: Any, arguments: Mapping[str, Any]) -> tuple[Any, list[str]]:
    if not recipe.channels.replay.used:
        return None, []
    options = recipe.replay
    replay, left = open_replay(
        Path(options.pairs),
        tokenizer,
        max_ids=recipe.generation.max_ids,
        template=dict(arguments),
        weights=dict(zip(options.losses, options.weights, strict=True)),
        batch=options.batch,
        beta=options.beta,
    )
    return replay, [f"{number} pairs left out: {reason}" for reason, number in left.items()]


def _teacher(recipe: Recipe, model: Any) -> Teacher | None:
    if not recipe.channels.distillation.used and recipe.objective.kl != "k1_in_reward":
        return None
    options = recipe.distillation
    teacher = Teacher(options.teacher, every=options.every, rate=options.rate)
    teacher.start(model)
    return teacher


def _parts(
    recipe: Recipe, url: str, tokenizer: Any, arguments: Mapping[str, Any], teacher: Teacher | None, replay: Any
) -> Parts:
    options, room = recipe.distillation, recipe.generation
    return Parts(
        url=url,
        chat=lambda sampler: TemplateChat(tokenizer, sampler, arguments=arguments),
        objective=objectives.objective(recipe.objective.name),
        channels=Channels(recipe.channels.rlvr, recipe.channels.distillation, recipe.channels.replay),
        distillation=distillation.Settings(
            beta=options.beta,
            normalised=options.normalised,
            estimator=options.estimator,
            top_k=options.top_k,
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
    )


def _arguments(recipe: Recipe, out: Path) -> dict[str, Any]:
    """GRPOConfig's. The data are in the order of the steps, once: a resumed run finds its place in them."""
    train, room = recipe.train, recipe.generation
    given = {
        "output_dir": str(out / CHECKPOINTS),
        "seed": recipe.seed,
        "max_steps": train.steps,
        "num_generations": train.group,
        "per_device_train_batch_size": train.micro,
        "gradient_accumulation_steps": plan(recipe, world())["gradient_accumulation"],
        "num_iterations": train.epochs_on_a_batch,
        "shuffle_dataset": False,
        "max_completion_length": room.max_ids,
        "temperature": room.temperature,
        "learning_rate": train.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": int(train.warmup * train.steps),
        "weight_decay": train.weight_decay,
        "max_grad_norm": train.clip_grad,
        "beta": recipe.objective.kl_weight if recipe.objective.kl == "k3" else 0.0,
        "bf16": recipe.model.dtype == "bfloat16",
        "use_cpu": not torch.cuda.is_available(),
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": train.save_every,
        "save_total_limit": 2,
        "report_to": [],
        "disable_tqdm": True,
        **objectives.objective(recipe.objective.name).arguments,
    }
    if room.vllm != "off":
        # Over thousands of tokens the product of ratios masks or explodes whole episodes; each token's is truncated.
        given |= {"use_vllm": True, "vllm_mode": room.vllm, "vllm_importance_sampling_mode": "token_truncate"}
        given |= {"vllm_server_base_url": room.vllm_url} if room.vllm == "server" else {}
    return given


def _watch(recipe: Recipe, trainer: Any, teacher: Teacher | None, replay: Any, progress: Progress) -> Callbacks:
    out = Path(recipe.out)
    trainer.remove_callback(PrinterCallback)
    watch = Watch(trainer, teacher, drift=recipe.safety.teacher_drift > 0, kl=recipe.safety.kl_to_base > 0)
    found = Callbacks(
        Keeper(teacher, replay, watch), KillSwitch(recipe.safety, out), Interrupt(recipe.train.epochs_on_a_batch)
    )
    for callback in (watch, Metrics(out, progress), found.switch, found.interrupt, found.keeper):
        trainer.add_callback(callback)
    return found


def _is_moe(config: Any) -> bool:
    text = config.get_text_config()
    return bool(getattr(text, "num_experts", 0) or getattr(text, "num_local_experts", 0))
