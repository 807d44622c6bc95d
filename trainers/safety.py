"""The kill-switch: a run that goes wrong stops by itself, saves what there is, and says why."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .recipe import Safety

STOPPED = "stopped.json"
WATCHED = {
    "kl_to_base": "kl_good_turns",
    "teacher_drift": "teacher_drift",
    "hack_rate": "episodes/hack_rate",
    "dollars": "cost/usd",
    "hours": "cost/hours",
}
"""Limits of a recipe's [safety], and the logged metric that each one bounds."""


@dataclass(frozen=True)
class Stop:
    """Why a run was stopped. ``limit`` is the recipe's key, or ``nan``."""

    step: int
    limit: str
    metric: str
    value: float
    most: float

    def __str__(self) -> str:
        if self.limit == "nan":
            return f"stopped at step {self.step}: {self.metric} is {self.value}"
        limit = f"safety.{self.limit} = {self.most:g}"
        return f"stopped at step {self.step}: {self.metric} is {self.value:.4g}, more than {limit}"


def verdict(step: int, logs: Mapping[str, Any], limits: Safety) -> Stop | None:
    """The first limit that these metrics break; a loss or gradient that is no number always does."""
    for name in ("loss", "grad_norm"):
        value = logs.get(name)
        if isinstance(value, int | float) and not math.isfinite(value):
            return Stop(step, "nan", name, float(value), 0.0)
    for limit, metric in WATCHED.items():
        most, value = getattr(limits, limit), logs.get(metric)
        if most and isinstance(value, int | float) and not value <= most:
            return Stop(step, limit, metric, float(value), most)
    return None


class KillSwitch(TrainerCallback):
    """Asked whenever metrics are logged. ``stop`` says why it stopped, and so does ``stopped.json`` in ``out``.

    Wall clock and cost are counted here: ``hours`` that the run took before it was interrupted and those since the
    start, and dollars at ``dollars_per_hour``.
    """

    def __init__(
        self, limits: Safety, out: Path, *, hours: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits, self.out, self._clock = limits, out, clock
        self.stop: Stop | None = None
        self._started = clock() - 3600 * hours

    def costs(self) -> dict[str, float]:
        """What was used so far, as metrics."""
        hours = (self._clock() - self._started) / 3600
        return {"cost/hours": hours, "cost/usd": hours * self.limits.dollars_per_hour}

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> Any:
        if self.stop is None and logs:
            self.stop = verdict(state.global_step, {**self.costs(), **logs}, self.limits)
            if self.stop is not None:
                control.should_training_stop = control.should_save = True
                self.out.mkdir(parents=True, exist_ok=True)
                (self.out / STOPPED).write_text(json.dumps({**vars(self.stop), "reason": str(self.stop)}, indent=1))
        return control
