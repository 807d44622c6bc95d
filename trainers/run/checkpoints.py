"""Where a run goes on after it was interrupted. transformers keeps weights, optimizer, schedule and the position in the
data; here is the rest: the teacher, the replay channel's reference, and what the teacher's drift is measured from.

Sampling needs no state of its own: it is seeded anew for each step.
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
from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from ...errors import RecipeError, ServerError
from ..distillation.teachers import Teacher
from ..distributed import agreed
from .callbacks import Watch

CHECKPOINTS = "checkpoints"
STATE = "etude.pt"


def last_checkpoint(out: Path) -> Path | None:
    """The newest one. Raises RecipeError when it cannot be read."""
    found = newest(out)
    if found is not None:
        _check(found)
    return found


def newest(out: Path) -> Path | None:
    """Of the checkpoints that were written to their end, unread."""
    folders = (out / CHECKPOINTS).glob("checkpoint-*")
    written = [path for path in folders if path.name.rpartition("-")[2].isdigit() and (path / STATE).is_file()]
    return max(written, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """That it was written after."""
    return int(checkpoint.name.rpartition("-")[2])


def resume(trainer: Any, checkpoint: Path | None) -> None:
    """Train, from a checkpoint or the start; after the last step not at all: transformers would make one more."""
    if checkpoint is None or step_of(checkpoint) < trainer.args.max_steps:
        with writing():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))


@contextmanager
def kept(trainer: Any, out: Path) -> Iterator[None]:
    """Around training. An environment that is lost for good ends the run, on all ranks, with a checkpoint of its last
    whole step: playing comes before anything that a step changes."""
    try:
        yield
    except ServerError as error:
        step, last = trainer.state.global_step, newest(out)
        if not step:
            raise
        if last is None or step_of(last) < step:
            with writing():
                trainer._save_checkpoint(trainer.model, trial=None)
            trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
        raise type(error)(f"{error}; the same command goes on behind step {step}", error.code) from error


@contextmanager
def writing() -> Iterator[None]:
    """Around what saves weights. Raises RecipeError when the disk takes no more, as torch and safetensors say it."""
    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        said = str(error)
        if isinstance(error, RuntimeError) and "PytorchStreamWriter" not in said and "inline_container" not in said:
            raise
        raise RecipeError(f"out: weights cannot be written ({said.splitlines()[0]}): make room for them") from None


def _check(checkpoint: Path) -> None:
    try:
        json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
        for path in checkpoint.iterdir():
            if path.suffix in (".pt", ".pth"):
                zipfile.ZipFile(path).close()
            elif path.suffix == ".safetensors":
                safe_open(path, "pt")  # reads the header, and the length that it tells
    except (OSError, ValueError, zipfile.BadZipFile, SafetensorError) as error:
        raise RecipeError(
            f"{checkpoint} is damaged ({error}): remove it, and the same command goes on from the one before"
        ) from None


class Keeper(TrainerCallback):
    """Writes the rest into each checkpoint as it is saved, and reads it back."""

    def __init__(self, teacher: Teacher | None, replay: Any, watch: Watch | None = None) -> None:
        self._teacher, self._replay, self._watch = teacher, replay, watch

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            kept = {
                "teacher": self._teacher.state_dict() if self._teacher else {},
                "replay": self._replay.state_dict() if self._replay else {},
                "drift": self._watch.drift if self._watch else None,
            }
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            torch.save(kept, folder / f"{STATE}.part")
            (folder / f"{STATE}.part").rename(folder / STATE)

    def load(self, checkpoint: Path, student: Any) -> None:
        """Before training goes on. Raises ReplayError for other pairs, RecipeError for what it cannot read."""
        try:
            # It holds rollouts of ours, and comes from the run's own folder.
            kept = torch.load(checkpoint / STATE, weights_only=False, map_location=student.device)
            if self._teacher:
                self._teacher.load_state_dict(kept["teacher"], student)
            if self._replay:
                self._replay.load_state_dict(kept["replay"])
            if self._watch:
                self._watch.drift = kept["drift"]
        except (LookupError, AttributeError, ImportError, TypeError, RuntimeError, pickle.UnpicklingError):
            raise RecipeError(f"{checkpoint} was written by another version of Etude: choose another out") from None


class Interrupt(TrainerCallback):
    """The first Ctrl-C ends the run behind the batch of episodes under way, with a checkpoint; the second one ends it
    at once. All ranks end with the one that heard it. ``every``: steps that one batch is used for."""

    def __init__(self, every: int = 1) -> None:
        self.asked, self.heard, self._every = False, False, every

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
        between = state.global_step % self._every == 0 and state.global_step < state.max_steps
        if between and agreed(self.asked or None):
            self.heard = control.should_training_stop = control.should_save = True
        return control

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Only the main thread hears signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def ask(number: int, frame: Any) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            sys.stderr.write("train: ending behind this step, with a checkpoint; once more ends it at once\n")

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
