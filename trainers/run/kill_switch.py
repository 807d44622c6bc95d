"""Kill switch: a run that breaks a limit of [safety] saves a checkpoint, stops, and reports why."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..distributed import first_over_ranks
from ..recipe.recipe import Safety
from ..report.run_files import STOPPED
from .checkpoints import newest_checkpoint
from .run_dir import write_json

NAN = "nan"
"""Limit of a Stop whose loss or gradient is not finite."""
LIMITED_METRICS = {
    "kl_to_base": "kl_good_turns",
    "teacher_drift": "teacher_drift",
    "hack_rate": "episodes/hack_rate",
    "suspect_rate": "episodes/suspect_rate",
    "dollars": "cost/usd",
    "hours": "cost/hours",
}
"""Limits of a recipe's [safety], and the logged metric that each one bounds."""
WINDOWED_METRICS = ("episodes/hack_rate", "episodes/suspect_rate")
"""Metrics of which the mean over ``hack_window`` steps is bounded."""


@dataclass(frozen=True)
class Stop:
    """Reason why a run was stopped."""

    step: int
    """Step after which it stopped."""
    limit: str
    """Key in [safety], or ``nan``: then the weights are lost."""
    metric: str
    """Metric that broke the limit."""
    value: float
    """Value of the metric."""
    most: float
    """Value of the limit."""
    good: str = ""
    """Last checkpoint before the weights were lost, if there is one."""
    window: int = 1
    """Steps that the value is the mean of."""

    def __str__(self) -> str:
        if self.limit == NAN:
            remedy = f"{self.good} is the last good checkpoint" if self.good else "no checkpoint was written before it"
            return f"stopped at step {self.step}: {self.metric} is {self.value}, its weights are not saved; {remedy}"
        limit = f"safety.{self.limit} = {self.most:g}"
        mean = f" on average over {self.window} steps" if self.window > 1 else ""
        return f"stopped at step {self.step}: {self.metric} is {self.value:.4g}{mean}, more than {limit}"


def broken_limit(step: int, logs: Mapping[str, Any], limits: Safety) -> Stop | None:
    """Return the first limit that these metrics break, or None.

    A loss or gradient norm that is not finite always breaks one.
    """
    for name in ("loss", "grad_norm"):
        value = logs.get(name)
        if isinstance(value, int | float) and not math.isfinite(value):
            return Stop(step, NAN, name, float(value), 0.0)
    for limit, metric in LIMITED_METRICS.items():
        most, value = getattr(limits, limit), logs.get(metric)
        if most and isinstance(value, int | float) and not value <= most:
            return Stop(step, limit, metric, float(value), most)
    return None


class KillSwitch(TrainerCallback):
    """Checks the limits whenever metrics are logged, and stops all ranks together.

    ``stop`` is the reason, the same on all ranks, and so is ``stopped.json`` in ``out``. A checkpoint is saved unless
    the weights are lost. A run can only resume between two batches of episodes, so it stops there, but at once if its
    weights are lost.
    """

    def __init__(
        self,
        limits: Safety,
        out: Path,
        *,
        every: int = 1,
        hours: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``every``: steps on one batch of episodes. ``hours``: time of earlier parts of a resumed run."""
        self.limits, self.out, self._every, self._clock = limits, out, every, clock
        self.stop: Stop | None = None
        self._pending: Stop | None = None
        self._start = clock() - 3600 * hours
        self._windows = {name: deque[float](maxlen=limits.hack_window) for name in WINDOWED_METRICS}

    def costs(self) -> dict[str, float]:
        """Return hours and dollars of the run so far, as metrics."""
        hours = (self._clock() - self._start) / 3600
        return {"cost/hours": hours, "cost/usd": hours * self.limits.dollars_per_hour}

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> Any:
        if self.stop is None and logs:
            stop = first_over_ranks(self._check(state.global_step, logs))
            self._pending = stop if self._pending is None or _weights_lost(stop) else self._pending
            between_batches = state.global_step % self._every == 0 or state.global_step >= state.max_steps
            if self._pending is not None and (between_batches or _weights_lost(self._pending)):
                self.stop = replace(self._pending, step=state.global_step)
                control.should_training_stop, control.should_save = True, not self.weights_lost
                if state.is_world_process_zero:
                    self.out.mkdir(parents=True, exist_ok=True)
                    write_json(self.out / STOPPED, {**vars(self.stop), "reason": str(self.stop)})
        return control

    @property
    def weights_lost(self) -> bool:
        """Return whether the run stopped because its loss or gradient was not finite."""
        return _weights_lost(self.stop)

    def _check(self, step: int, logs: Mapping[str, Any]) -> Stop | None:
        stop = broken_limit(step, {**self.costs(), **self._averaged(logs)}, self.limits)
        if stop is not None and stop.metric in WINDOWED_METRICS:
            return replace(stop, window=self.limits.hack_window)
        if stop is None or stop.limit != NAN:
            return stop
        good = newest_checkpoint(self.out)
        return replace(stop, good=str(good) if good else "")

    def _averaged(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics with means over the window, and without those whose window is not full yet.

        A resumed run starts with empty windows.
        """
        averaged = {name: value for name, value in logs.items() if name not in WINDOWED_METRICS}
        for name, window in self._windows.items():
            if isinstance(logs.get(name), int | float):
                window.append(float(logs[name]))
                if len(window) == window.maxlen:
                    averaged[name] = sum(window) / len(window)
        return averaged


def _weights_lost(stop: Stop | None) -> bool:
    return stop is not None and stop.limit == NAN
