"""What is written down while a run goes on: a line of metrics for each step, and what the kill-switch watches."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from .divergence import divergence
from .forwards import head_of, student_rows
from .rollouts import Rollout
from .sites import Site
from .teachers import Drift, Teacher

METRICS = "metrics.jsonl"
Progress = Callable[[str, int, int], None]
DRIFT_EVERY = 5
"""Steps between two measurements of a moving teacher."""
_PROBES = 8
"""Rollouts that the drift is measured on, the first ones with sites."""
_GOOD = 4
"""Rollouts of a batch that the KL to the base is measured on."""


class Metrics(TrainerCallback):
    """Writes ``metrics.jsonl``, and TensorBoard's files beside it where that is installed, from the first rank."""

    def __init__(self, out: Path, progress: Progress) -> None:
        self.path, self._progress, self._board = out / METRICS, progress, _board(out)

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Lines of steps that a resumed run makes again are dropped."""
        if state.is_world_process_zero:
            kept = [row for row in read_metrics(self.path) if row["step"] <= state.global_step]
            self.path.write_text("".join(json.dumps(row) + "\n" for row in kept))

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._progress("training", state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        row = {"step": state.global_step, **{name: value for name, value in logs.items() if _plain(value)}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._board is not None:
            for name, value in row.items():
                self._board.add_scalar(name, value, state.global_step)
            self._board.flush()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none when there is no file. A torn last line is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


class Watch(TrainerCallback):
    """After each step: moves the teacher, and measures what the limits of [safety] need that is not measured anyway.

    ``trainer`` is an EtudeTrainer. ``drift`` and ``kl`` switch the two measurements on.
    """

    def __init__(self, trainer: Any, teacher: Teacher | None, *, drift: bool, kl: bool) -> None:
        self._trainer, self._teacher = trainer, teacher
        self._measure_drift = drift and teacher is not None and teacher.kind != "frozen"
        self.drift: Drift | None = None
        self._base = copy.deepcopy(trainer.model).eval().requires_grad_(False) if kl else None

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        student = self._trainer.accelerator.unwrap_model(self._trainer.model)
        if self._teacher is not None:
            if self._measure_drift and self.drift is None:
                self._probe(self._teacher.model(student))  # before its first move; a live one has moved by one step
            self._teacher.step(student, state.global_step)
            if self._measure_drift and state.global_step % DRIFT_EVERY == 0:
                # A rank that never had a site has nothing to measure, but takes part.
                self._note("teacher_drift", self.drift.measure(self._teacher.model(student)) if self.drift else 0.0)
        if self._base is not None:
            self._note("kl_good_turns", good_turns_kl(student, self._base, self._trainer.measured()))

    def _probe(self, teacher: Any) -> None:
        held = [(rollout, sites) for rollout, sites in self._trainer.measured() if sites][:_PROBES]
        if held:
            self.drift = Drift(held)
            self.drift.measure(teacher)

    def _note(self, name: str, measured: float) -> None:
        """The most over ranks, so that all of them stop, or none."""
        value = torch.tensor(measured, device=self._trainer.accelerator.device)
        self._trainer._note(name, float(self._trainer.accelerator.gather(value).max()))


@torch.no_grad()
def good_turns_kl(student: Any, base: Any, played: list[tuple[Rollout, list[Site]]]) -> float:
    """KL(student || base) in nats a token, exact over the vocabulary, on turns that did not err; 0 without any."""
    parts = []
    for rollout, _ in played:
        erred = {error.turn for error in rollout.error_turns}
        spans = [(t, span) for t, span in enumerate(rollout.turns) if t not in erred and span.end > span.start]
        good = [Site(t, "", span.begin, span.start, span.end, []) for t, span in spans]
        if good:
            ours, theirs = (head_of(m).logits(student_rows(m, rollout.ids, good)) for m in (student, base))
            parts.append(divergence(ours, theirs, 1.0))
        if len(parts) == _GOOD:
            break
    return float(torch.cat(parts).mean()) if parts else 0.0


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _board(out: Path) -> Any:
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / "tensorboard"))
