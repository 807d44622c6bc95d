"""Typed records of a run: its plan, its evaluations and its result, and the callables that a caller gives it.

Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import RecipeError
from ..recipe.recipe import Recipe
from ..rollouts.rollout import Rollout
from ..sft.rows import Solved
from ..sft.rows import plan as sft_plan

Progress = Callable[[str, int, int], None]
"""Reports progress: the phase, the steps that are done, and all steps (0 if their number is unknown)."""
WriteDialogues = Callable[[Path, Recipe], None]
"""Writes the dialogues on which a tiny model is pretrained to a JSONL file."""


@dataclass(frozen=True)
class RunPlan:
    """What follows from a recipe of stage "rl"."""

    recipe: dict[str, Any]
    """The resolved recipe as plain data."""
    processes: int
    episodes_a_batch: int
    gradient_accumulation: int
    """Micro-batches of one step on each process."""
    episodes: int
    """Episodes of the whole run."""
    channels: list[str]
    """Channels that ever have a weight."""


@dataclass(frozen=True)
class Evaluation:
    """Result of playing held-out tasks."""

    episodes: int
    valid: int
    """Episodes that the server's machine did not spoil; all rates are of these."""
    solved: float
    """Share of episodes with full reward."""
    error_turn_rate: float
    """Share of turns that erred."""
    reward: float
    """Mean reward."""
    turns: int = 0
    """Turns of the valid episodes."""


@dataclass
class Result:
    """Result of a run."""

    out: str
    """Folder of the run."""
    steps: int = 0
    """Steps made, those before an interruption included."""
    stopped: str = ""
    """Why the kill switch ended the run."""
    interrupted: bool = False
    """Whether the run was interrupted; the same command resumes it."""
    resumed_from: int = 0
    """Step from which this run resumed."""
    before: Evaluation | None = None
    after: Evaluation | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether the run reached its last step."""
        return not self.stopped and not self.interrupted


def plan_rl(recipe: Recipe, processes: int = 1) -> RunPlan:
    """Return the plan of a run on this many processes. Raise RecipeError if the batches cannot be divided."""
    train = recipe.train
    batch, micro = train.prompts * train.group, train.micro * processes
    if batch % micro:
        raise RecipeError(
            f"train.prompts x train.group = {batch} episodes do not divide into micro-batches of {train.micro} on "
            f"{processes} processes; set train.micro to a divisor"
        )
    if recipe.objective.kl == "k1_in_reward" and train.prompts % processes:
        raise RecipeError(
            f'objective.kl = "k1_in_reward" needs every group on one process; set train.prompts to a multiple of '
            f"{processes}"
        )
    batches = -(-train.steps // train.epochs_on_a_batch)
    return RunPlan(
        recipe=recipe.model_dump(mode="json"),
        processes=processes,
        episodes_a_batch=batch,
        gradient_accumulation=batch // micro,
        episodes=batches * batch,
        channels=[name for name, weight in recipe.channels if weight.used],
    )


def plan(recipe: Recipe, processes: int = 1, solved: Solved | None = None) -> dict[str, Any]:
    """Return the plan of a run of either stage as plain data. Stage "sft" needs its episodes, ``solved``.

    Raise RecipeError if the batches cannot be divided.
    """
    return asdict(plan_rl(recipe, processes)) if solved is None else sft_plan(recipe, processes, solved)


def evaluation_of(rollouts: Sequence[Rollout]) -> Evaluation:
    """Return the evaluation of played episodes."""
    valid = [rollout for rollout in rollouts if rollout.reward.valid]
    turns = sum(len(rollout.turns) for rollout in valid)
    erred = sum(len(rollout.erring_turns) for rollout in valid)
    return Evaluation(
        episodes=len(rollouts),
        valid=len(valid),
        solved=sum(rollout.reward.value >= 1 for rollout in valid) / max(len(valid), 1),
        error_turn_rate=erred / max(turns, 1),
        reward=sum(rollout.reward.value for rollout in valid) / max(len(valid), 1),
        turns=turns,
    )
