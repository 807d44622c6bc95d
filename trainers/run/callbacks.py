"""What is written down while a run goes on: a line of metrics for each step, and what the kill-switch watches."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from ..distillation.distill_sites import Site
from ..distillation.divergence import fused_divergence
from ..distillation.hidden_states import head_of, student_rows
from ..distillation.teachers import Drift, Teacher
from ..report import write_report
from ..report.stored import METRICS, read_metrics
from ..rollouts.rollout import Rollout
from .metrics_summary import Steps

BOARD = "tensorboard"
Progress = Callable[[str, int, int], None]
DRIFT_EVERY = 5
"""Steps between two measurements of a moving teacher."""
_PROBES = 8
"""Rollouts that the drift is measured on, the first ones with sites."""
_GOOD = 4
"""Rollouts of a batch that the KL to the base is measured on."""


class Metrics(TrainerCallback):
    """Writes ``metrics.jsonl`` and says a line for each step; the report is written anew with each checkpoint. All of
    it by the first rank alone.

    ``prompts``: groups of a step. ``board``: TensorBoard's files too. ``costs``: what was used so far, as metrics.
    ``clock``: seconds.
    """

    def __init__(
        self,
        out: Path,
        progress: Progress,
        *,
        prompts: int = 1,
        board: bool = False,
        costs: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path, self._progress, self._steps = out / METRICS, progress, Steps(prompts)
        self._wants_board, self._costs, self._clock = board, costs, clock
        self._board: Any = None
        self._began = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Lines of steps that a resumed run makes again are dropped, here and from TensorBoard."""
        self._progress("training", state.global_step, state.max_steps)
        if not state.is_world_process_zero:
            return
        kept = [row for row in read_metrics(self.path) if row["step"] <= state.global_step]
        part = self.path.with_name(f"{METRICS}.part")
        part.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        part.replace(self.path)
        if self._wants_board:
            self._board = open_board(self.path.parent, state.global_step + 1)

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._began = self._clock()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        took = {"seconds/step": self._clock() - self._began, **_memory()}
        row = {"step": state.global_step, **{k: v for k, v in logs.items() if _plain(v)}, **took, **self._costs()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._progress(self._steps.line(row, state.max_steps), state.global_step, state.max_steps)
        if self._board is not None:
            for name in row.keys() - {"step"}:
                self._board.add_scalar(name, row[name], state.global_step)
            self._board.flush()

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            write_report(self.path.parent)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._board is not None:
            self._board.close()


def _memory() -> dict[str, float]:
    """The most that this rank's GPU held during the step, GiB; nothing without a GPU."""
    return {"memory/peak_gib": torch.cuda.max_memory_allocated() / 2**30} if torch.cuda.is_available() else {}


class Watch(TrainerCallback):
    """After each step: moves the teacher, and measures what the limits of [safety] need that is not measured anyway.

    ``trainer`` is an EtudeTrainer. ``drift`` and ``kl`` switch the two measurements on.
    """

    def __init__(self, trainer: Any, teacher: Teacher | None, *, drift: bool, kl: bool) -> None:
        self._trainer, self._teacher = trainer, teacher
        self._measure_drift = drift and teacher is not None and teacher.kind != "frozen"
        self.drift: Drift | None = None
        first = Teacher("frozen")
        if kl or self._measure_drift:
            first.start(trainer.model)
        self._base = first if kl else None
        self._first = first if self._measure_drift else None

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        student = self._trainer.accelerator.unwrap_model(self._trainer.model)
        if self._teacher is not None:
            if self._first is not None and self.drift is None:
                self._probe(self._first.model(student))
            self._first = self._first if self.drift is None else None
            self._teacher.step(student, state.global_step)
            if self._measure_drift and state.global_step % DRIFT_EVERY == 0:
                # A rank that never had a site has nothing to measure, but takes part.
                self._note("teacher_drift", self._drifted(self._teacher.model(student)))
        if self._base is not None:
            base = self._base.model(student)
            with self._trainer.accelerator.autocast():
                kl = good_turns_kl(student, base, self._trainer.measured())
            self._note("kl_good_turns", kl)  # nothing where no turn of any rank was good

    def _probe(self, first: Any) -> None:
        """What the teacher's drift is measured from: its first self, however late the first sites come."""
        held = [(rollout, sites) for rollout, sites in self._trainer.measured() if sites][:_PROBES]
        if held:
            self.drift = Drift(held)
            self._drifted(first)

    def _drifted(self, teacher: Any) -> float:
        with self._trainer.accelerator.autocast():
            return self.drift.measure(teacher) if self.drift is not None else 0.0

    def _note(self, name: str, measured: float | None) -> None:
        """The most over ranks that measured, so that all of them stop, or none. What is no number is infinite: TRL
        averages without NaN, and no limit would see it."""
        known = -math.inf if measured is None else measured
        most = self._trainer.accelerator.gather(torch.tensor(known, device=self._trainer.accelerator.device)).max()
        if not most.isneginf():
            self._trainer._note(name, math.inf if most.isnan() else float(most))


@torch.no_grad()
def good_turns_kl(student: Any, base: Any, played: list[tuple[Rollout, list[Site]]]) -> float | None:
    """KL(student || base) in nats a token, exact over the vocabulary, on turns that did not err; None without any."""
    parts = []
    for rollout, _ in played:
        erred = {error.turn for error in rollout.error_turns}
        spans = [(t, span) for t, span in enumerate(rollout.turns) if t not in erred and span.end > span.start]
        good = [Site(t, "", span.begin, span.start, span.end, []) for t, span in spans]
        if good:
            ours, theirs = ((student_rows(m, rollout.ids, good), head_of(m)) for m in (student, base))
            parts.append(fused_divergence(*ours, *theirs, 1.0))
        if len(parts) == _GOOD:
            break
    return float(torch.cat(parts).mean()) if parts else None


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def open_board(out: Path, step: int) -> Any:
    """A writer of TensorBoard's files; what they hold from ``step`` on is not shown any more."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / BOARD), purge_step=step)


__all__ = ["BOARD", "METRICS", "Metrics", "Progress", "Watch", "good_turns_kl", "read_metrics"]
