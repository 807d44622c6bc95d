"""Training loop of a built run: evaluate, train from the last checkpoint, save, evaluate again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..distributed import gather_from_ranks, rank, world_size
from ..grpo.generation import seed_sampling
from ..report.metrics_summary import run_warnings
from ..report.run_files import BEFORE, METRICS, read_metrics
from ..sharded.access import causal_model
from .builder import BuiltRun
from .checkpoints import last_checkpoint, reporting_full_disk, saving_on_lost_server, step_of, train_from
from .model_loading import save_template_arguments
from .records import Evaluation, Progress, Result, evaluation_of
from .run_dir import read_json, write_json

MODEL = "model"
"""Folder of the trained model in the folder of the run."""


def train(run: BuiltRun, held_out: Sequence[str], result: Result, progress: Progress) -> Result:
    """Evaluate, train, evaluate again, and save. Fill in and return ``result``."""
    trainer, callbacks, out = run.trainer, run.callbacks, Path(run.recipe.out)
    try:
        checkpoint = last_checkpoint(out)
        result.before = _evaluate_before(run, held_out, out, progress)
        if checkpoint is not None:
            callbacks.saver.load(checkpoint, causal_model(trainer.model))
            result.resumed_from = step_of(checkpoint)
            progress(f"resuming after step {result.resumed_from}", 0, 0)
        with callbacks.interrupt.handling_ctrl_c(), saving_on_lost_server(trainer, out):
            train_from(trainer, checkpoint)
        result.steps = trainer.state.global_step
        result.stopped = str(callbacks.switch.stop or "")
        result.interrupted = callbacks.interrupt.interrupted and not result.stopped
        rows = read_metrics(out / METRICS)
        result.warnings = [*run.warnings, *run_warnings(rows, run.recipe.model_dump(), moe=run.moe)]
        if not result.interrupted and not callbacks.switch.weights_lost:
            with reporting_full_disk():
                trainer.save_model(str(out / MODEL))
            run.tokenizer.save_pretrained(out / MODEL)
            if rank() == 0:
                save_template_arguments(out / MODEL, run.arguments)
                (out / MODEL / "README.md").unlink(missing_ok=True)  # peft's form; `etude push` writes a card
            result.after = evaluate(run, held_out, progress) if not result.stopped else None
    finally:
        trainer.close()
    return result


def evaluate(run: BuiltRun, tasks: Sequence[str], progress: Progress) -> Evaluation | None:
    """Play one episode of each task, sampled as in training, and return the evaluation; None without tasks."""
    if not tasks:
        return None
    progress("evaluating", 0, 0)
    trainer = run.trainer
    training = trainer.model.training
    trainer.model.eval()
    seed_sampling(run.recipe.seed)
    with trainer.accelerator.autocast():  # as in training, whose first step wraps the model in it
        rollouts = trainer.play([{"task_id": task} for task in list(tasks)[rank() :: world_size()]])
    trainer.model.train(training)
    return evaluation_of([rollout for of_rank in gather_from_ranks(rollouts) for rollout in of_rank])


def _evaluate_before(run: BuiltRun, held_out: Sequence[str], out: Path, progress: Progress) -> Evaluation | None:
    """Return the evaluation before training, which is made once for a run, however often it is resumed."""
    file = out / BEFORE
    if file.exists():
        stored = read_json(file)
        return Evaluation(**stored) if stored else None
    before = evaluate(run, held_out, progress)
    if rank() == 0:
        write_json(file, asdict(before) if before else None)
    return before
