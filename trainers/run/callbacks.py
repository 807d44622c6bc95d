"""Callbacks that measure a run: the metrics of each step, and the drift and KL that the limits of [safety] need."""

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
from ..distributed import first_over_ranks
from ..report.metrics_summary import StepLines
from ..report.page import write_report
from ..report.run_files import METRICS, read_metrics, write_atomically
from ..rollouts.rollout import Rollout
from ..sharded.access import causal_model, idle, missing_passes, reshard_heads
from .records import Progress

TENSORBOARD = "tensorboard"
DRIFT_EVERY = 5
"""Steps between two measurements of a moving teacher."""
_PROBES = 8
"""Rollouts on which drift is measured: the first ones with sites."""
_KL_ROLLOUTS = 4
"""Rollouts of a batch on which the KL to the base is measured."""


class MetricsWriter(TrainerCallback):
    """Writes ``metrics.jsonl``, reports a line for each step, and writes the report with each checkpoint.

    Only the first rank writes.
    """

    def __init__(
        self,
        out: Path,
        progress: Progress,
        *,
        prompts: int = 1,
        tensorboard: bool = False,
        costs: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``prompts``: groups of a step. ``costs`` returns the costs so far as metrics. ``clock`` is in seconds."""
        self.path, self._progress, self._lines = out / METRICS, progress, StepLines(prompts)
        self._tensorboard, self._costs, self._clock = tensorboard, costs, clock
        self._board: Any = None
        self._step_start = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Remove the metrics of steps that a resumed run repeats, here and from TensorBoard."""
        self._progress("training", state.global_step, state.max_steps)
        if not state.is_world_process_zero:
            return
        rows = [row for row in read_metrics(self.path) if row["step"] <= state.global_step]
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows))
        if self._tensorboard:
            self._board = open_board(self.path.parent, state.global_step + 1)

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._step_start = self._clock()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        usage = {"seconds/step": self._clock() - self._step_start, **_peak_memory()}
        row = {"step": state.global_step, **{k: v for k, v in logs.items() if _is_number(v)}, **usage, **self._costs()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._progress(self._lines.line(row, state.max_steps), state.global_step, state.max_steps)
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


class PolicyMonitor(TrainerCallback):
    """Updates the teacher after each step, and measures what the limits of [safety] need.

    The two measurements are the drift of a moving teacher and the KL of the policy to its first weights. ``drift`` and
    ``kl`` switch them on. ``trainer`` is an EtudeTrainer; ``first`` has the first weights, which are copied without it.
    """

    def __init__(
        self, trainer: Any, teacher: Teacher | None, *, drift: bool, kl: bool, first: Teacher | None = None
    ) -> None:
        self._trainer, self._teacher = trainer, teacher
        self._measure_drift = drift and teacher is not None and teacher.kind != "frozen"
        self.drift: Drift | None = None
        first = first or Teacher("frozen")
        if kl or self._measure_drift:
            first.model(causal_model(trainer.model))
        self._base = first if kl else None
        self._first = first if self._measure_drift else None

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        student = causal_model(self._trainer.accelerator.unwrap_model(self._trainer.model))
        if self._teacher is not None:
            if self._first is not None:
                self._start_drift(self._first.model(student))
                self._first = self._first if first_over_ranks(self.drift is None or None) else None
            self._teacher.step(student, state.global_step)
            if self._measure_drift and state.global_step % DRIFT_EVERY == 0:
                # A rank that never had a site has nothing to measure, but must take part in the gather.
                self._record("teacher_drift", self._drift_of(self._teacher.model(student)))
        if self._base is not None:
            base = self._base.model(student)
            with self._trainer.accelerator.autocast():
                kl = good_turns_kl(student, base, self._trainer.last_rollouts())
            self._record("kl_good_turns", kl)
        reshard_heads(student)

    def _start_drift(self, first: Any) -> None:
        """Measure the teacher's first weights on the first rollouts with sites, however late those come."""
        started = self.drift is not None
        probe = [(rollout, sites) for rollout, sites in self._trainer.last_rollouts() if sites][:_PROBES]
        if probe and not started:
            self.drift = Drift(probe)
        self._drift_of(first, measured=bool(probe) and not started)

    def _drift_of(self, teacher: Any, *, measured: bool = True) -> float:
        """Return the drift, 0 on a rank that has none to measure. All ranks must call it together."""
        drift = self.drift if measured else None
        with self._trainer.accelerator.autocast():
            missing = missing_passes(teacher, 0 if drift is None else drift.passes)
            value = 0.0 if drift is None else drift.measure(teacher)
            idle(teacher, missing)
        return value

    def _record(self, name: str, value: float | None) -> None:
        """Record the largest value over the ranks that measured one, so that all ranks stop, or none.

        NaN is recorded as infinity, because TRL leaves NaN out of its averages, and no limit would see it.
        """
        local = -math.inf if value is None else value
        largest = self._trainer.accelerator.gather(torch.tensor(local, device=self._trainer.accelerator.device)).max()
        if not largest.isneginf():
            self._trainer.record_metric(name, math.inf if largest.isnan() else float(largest))


@torch.no_grad()
def good_turns_kl(student: Any, base: Any, rollouts: list[tuple[Rollout, list[Site]]]) -> float | None:
    """Return KL(student || base) in nats a token on turns that did not err; None without such a turn.

    It is exact over the vocabulary. If weights are sharded, all ranks must call it together.
    """
    good = [(rollout.ids, sites) for rollout, _ in rollouts if (sites := _good_turns(rollout))][:_KL_ROLLOUTS]
    missing, rows = missing_passes(student, len(good)), list[list[Any]]()
    for model in (student, base):
        rows.append([(student_rows(model, ids, sites), head_of(model)) for ids, sites in good])
        idle(model, missing)
    pairs = zip(*rows, strict=True)
    parts = [fused_divergence(hidden, head, other, other_head, 1.0) for (hidden, head), (other, other_head) in pairs]
    return float(torch.cat(parts).mean()) if parts else None


def _good_turns(rollout: Rollout) -> list[Site]:
    """Return the turns that did not err, as sites without a hint."""
    erring = rollout.erring_turns
    spans = [(t, span) for t, span in enumerate(rollout.turns) if t not in erring and span.end > span.start]
    return [Site(t, "", span.begin, span.start, span.end, []) for t, span in spans]


def open_board(out: Path, step: int) -> Any:
    """Return a TensorBoard writer; earlier records from ``step`` on are hidden."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / TENSORBOARD), purge_step=step)


def _peak_memory() -> dict[str, float]:
    """Return the peak memory of this rank's GPU during the step, in GiB, as a metric; nothing without a GPU."""
    return {"memory/peak_gib": torch.cuda.max_memory_allocated() / 2**30} if torch.cuda.is_available() else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
