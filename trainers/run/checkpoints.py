"""Checkpoints: what a run needs to resume where it was interrupted.

transformers saves weights, optimizer, schedule and the position in the data. This module saves the rest: the teacher,
the reference of the replay channel, and the measurement that the teacher's drift starts from. Sampling needs no state,
because it is seeded for each step.
"""

from __future__ import annotations

import json
import pickle
import signal
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from ...errors import RecipeError, ServerError
from ..distillation.teachers import Teacher
from ..distributed import first_over_ranks
from .callbacks import PolicyMonitor

CHECKPOINTS = "checkpoints"
STATE = "etude.pt"
TEACHER = "teacher"
"""Folder with the state of a moving teacher whose weights are divided over ranks."""


def last_checkpoint(out: Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None. Raise RecipeError if it is damaged."""
    checkpoint = newest_checkpoint(out)
    if checkpoint is not None:
        _check_files(checkpoint)
    return checkpoint


def newest_checkpoint(out: Path) -> Path | None:
    """Return the newest checkpoint that was written completely, without reading it, or None."""
    folders = (out / CHECKPOINTS).glob("checkpoint-*")
    complete = [path for path in folders if path.name.rpartition("-")[2].isdigit() and (path / STATE).is_file()]
    return max(complete, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """Return the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def train_from(trainer: Any, checkpoint: Path | None) -> None:
    """Train from a checkpoint, or from the start without one.

    A checkpoint of the last step is only loaded, because transformers would train one more step.
    """
    if checkpoint is None or step_of(checkpoint) < trainer.args.max_steps:
        with reporting_full_disk():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))


@contextmanager
def saving_on_lost_server(trainer: Any, out: Path) -> Iterator[None]:
    """Save a checkpoint of the last complete step when the server is lost for good during training.

    Playing comes before anything that a step changes, so that step can be saved. The ServerError is raised again, on
    all ranks, with a remark on how to resume.
    """
    try:
        yield
    except ServerError as error:
        step, last = trainer.state.global_step, newest_checkpoint(out)
        if not step:
            raise
        if last is None or step_of(last) < step:
            with reporting_full_disk():
                trainer._save_checkpoint(trainer.model, trial=None)
            trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
        raise type(error)(f"{error}; run the same command again to resume after step {step}", error.code) from error


@contextmanager
def reporting_full_disk() -> Iterator[None]:
    """Raise RecipeError when weights cannot be written, in place of the errors of torch and safetensors."""
    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        message = str(error)
        if isinstance(error, RuntimeError) and not ("PytorchStreamWriter" in message or "inline_container" in message):
            raise
        raise RecipeError(f"out: cannot write weights ({message.splitlines()[0]}); free some disk space") from None


def _check_files(checkpoint: Path) -> None:
    try:
        json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
        for path in checkpoint.iterdir():
            if path.suffix in (".pt", ".pth"):
                zipfile.ZipFile(path).close()
            elif path.suffix == ".safetensors":
                safe_open(path, "pt")  # reads the header, and compares the length in it
    except (OSError, ValueError, zipfile.BadZipFile, SafetensorError) as error:
        raise RecipeError(
            f"{checkpoint} is damaged ({error}); remove it and run the same command again to resume from an earlier one"
        ) from None


class StateSaver(TrainerCallback):
    """Saves the state of teacher, replay channel and drift in each checkpoint, and restores it."""

    def __init__(self, teacher: Teacher | None, replay: Any, monitor: PolicyMonitor | None = None) -> None:
        self._teacher, self._replay, self._monitor = teacher, replay, monitor

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        teacher = self._teacher.state_dict() if self._teacher else {}
        if _is_divided(teacher):
            save(teacher, checkpoint_id=folder / TEACHER)
            teacher = {}
        if state.is_world_process_zero:
            saved = {
                "teacher": teacher,
                "replay": self._replay.state_dict() if self._replay else {},
                "drift": self._monitor.drift if self._monitor else None,
            }
            torch.save(saved, folder / f"{STATE}.part")
            (folder / f"{STATE}.part").rename(folder / STATE)

    def load(self, checkpoint: Path, student: Any) -> None:
        """Restore the state before training resumes.

        Raise ReplayError if the pairs have changed, RecipeError if the state is of another version of Etude.
        """
        try:
            # The file holds objects of this package, and comes from the run's own folder.
            saved = torch.load(checkpoint / STATE, weights_only=False, map_location=student.device)
            if self._teacher and (checkpoint / TEACHER).is_dir():
                self._teacher.start(student)
                load(self._teacher.state_dict(), checkpoint_id=checkpoint / TEACHER)  # in place
            elif self._teacher:
                self._teacher.load_state_dict(saved["teacher"], student)
            if self._replay:
                self._replay.load_state_dict(saved["replay"])
            if self._monitor:
                self._monitor.drift = saved["drift"]
        except (LookupError, AttributeError, ImportError, TypeError, RuntimeError, pickle.UnpicklingError):
            raise RecipeError(f"{checkpoint} was written by another version of Etude; choose another out") from None


def _is_divided(teacher: dict[str, Any]) -> bool:
    """Return whether a teacher's state has weights that are divided over ranks."""
    return any(isinstance(value, DTensor) for value in teacher.get("copy", {}).values())


class Interrupt(TrainerCallback):
    """Ends the run after the current batch of episodes, with a checkpoint, at the first Ctrl-C; at once at the second.

    All ranks end together. ``every``: steps on one batch of episodes.
    """

    def __init__(self, every: int = 1) -> None:
        self._requested, self._every = False, every
        self.interrupted = False

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
        between_batches = state.global_step % self._every == 0 and state.global_step < state.max_steps
        if between_batches and first_over_ranks(self._requested or None):
            self.interrupted = control.should_training_stop = control.should_save = True
        return control

    @contextmanager
    def handling_ctrl_c(self) -> Iterator[None]:
        """Handle Ctrl-C, in the main thread only, where Python allows it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def handle(number: int, frame: Any) -> None:
            if self._requested:
                raise KeyboardInterrupt
            self._requested = True
            sys.stderr.write("train: ending after this step, with a checkpoint; press Ctrl-C again to end at once\n")

        signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
