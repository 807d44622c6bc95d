"""The kill-switch: a run that goes wrong stops by itself, saves what there is, and says why."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..distributed import agreed
from ..recipe.recipe import Safety
from ..report.stored import STOPPED
from .checkpoints import newest
from .run_dir import write_json

NAN = "nan"
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
    """Why a run was stopped. ``limit`` is the recipe's key, or ``nan``: the weights are lost then, and ``good`` is the
    last checkpoint before, if there is one."""

    step: int
    limit: str
    metric: str
    value: float
    most: float
    good: str = ""

    def __str__(self) -> str:
        if self.limit == NAN:
            left = f"{self.good} is the last good checkpoint" if self.good else "there is no checkpoint before it"
            return f"stopped at step {self.step}: {self.metric} is {self.value}, its weights are not saved; {left}"
        limit = f"safety.{self.limit} = {self.most:g}"
        return f"stopped at step {self.step}: {self.metric} is {self.value:.4g}, more than {limit}"


def verdict(step: int, logs: Mapping[str, Any], limits: Safety) -> Stop | None:
    """The first limit that these metrics break; a loss or gradient that is no number always does."""
    for name in ("loss", "grad_norm"):
        value = logs.get(name)
        if isinstance(value, int | float) and not math.isfinite(value):
            return Stop(step, NAN, name, float(value), 0.0)
    for limit, metric in WATCHED.items():
        most, value = getattr(limits, limit), logs.get(metric)
        if most and isinstance(value, int | float) and not value <= most:
            return Stop(step, limit, metric, float(value), most)
    return None


class KillSwitch(TrainerCallback):
    """Asked whenever metrics are logged. ``stop`` says why it stopped, the same on all ranks, and so does
    ``stopped.json`` in ``out``. A checkpoint is saved, but none of weights that are no numbers.

    Wall clock and cost are counted here: ``hours`` that the run took before it was interrupted and those since the
    start, and dollars at ``dollars_per_hour``. ``every``: steps that one batch of episodes is used for. A run goes on
    between batches alone, so that is where it stops, but at once where weights are no numbers.
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
        self.limits, self.out, self._every, self._clock = limits, out, every, clock
        self.stop: Stop | None = None
        self._found: Stop | None = None
        self._started = clock() - 3600 * hours

    def costs(self) -> dict[str, float]:
        """What was used so far, as metrics."""
        hours = (self._clock() - self._started) / 3600
        return {"cost/hours": hours, "cost/usd": hours * self.limits.dollars_per_hour}

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> Any:
        if self.stop is None and logs:
            found = agreed(self._wrong(state.global_step, logs))
            self._found = found if self._found is None or _is_poison(found) else self._found
            between = state.global_step % self._every == 0 or state.global_step >= state.max_steps
            if self._found is not None and (between or _is_poison(self._found)):
                self.stop = replace(self._found, step=state.global_step)
                control.should_training_stop, control.should_save = True, not self.poisoned
                if state.is_world_process_zero:
                    self.out.mkdir(parents=True, exist_ok=True)
                    write_json(self.out / STOPPED, {**vars(self.stop), "reason": str(self.stop)})
        return control

    @property
    def poisoned(self) -> bool:
        """Whether the weights are no numbers any more."""
        return _is_poison(self.stop)

    def _wrong(self, step: int, logs: Mapping[str, Any]) -> Stop | None:
        stop = verdict(step, {**self.costs(), **logs}, self.limits)
        if stop is None or stop.limit != NAN:
            return stop
        good = newest(self.out)
        return replace(stop, good=str(good) if good else "")


def _is_poison(stop: Stop | None) -> bool:
    return stop is not None and stop.limit == NAN
