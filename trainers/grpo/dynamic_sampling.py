"""Groups whose episodes all got the same reward: they have no advantage. They are counted and left out of the loss, and
in dynamic sampling (DAPO, arXiv:2503.14476, section 3.2) another task is played in the place of each, until every group
has some variance or the rounds are used up.

What was replaced is no part of RLVR; its error turns still teach, and its episodes count in what is logged. Which tasks
come in is a function of the run's seed, the step and what was played, so that all ranks, and a resumed run, take the
same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from accelerate.utils import gather_object
from torch import Tensor

from ..rollouts.rollout import Rollout
from .objectives import Objective, flat_groups

ROUNDS = 3
"""Of generation, at most, the first one included; what is flat after the last is given up."""


@dataclass(frozen=True)
class Sampled:
    """This rank's ``rollouts``, with what was played in each one's place ``before`` it; and of all ranks: how many
    groups were ``replaced``, each time counted, and how many are still without variance."""

    rollouts: list[Rollout]
    before: list[list[Rollout]]
    replaced: int
    given_up: int


class _Trainer(Protocol):
    """What of ``trainer.EtudeTrainer`` is used here."""

    args: Any
    state: Any
    accelerator: Any
    num_generations: int

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]: ...


def play_varied(trainer: _Trainer, tasks: Sequence[str], pool: Sequence[str]) -> Sampled:
    """``sample`` for this rank's rows of a step. ``tasks`` and ``pool`` are arguments of ``reset``, as JSON."""
    chance = random.Random(f"fresh {trainer.args.seed} {trainer.state.global_step}")
    return sample(
        tasks,
        lambda some: trainer.play([json.loads(task) for task in some]),
        lambda played: flat_groups(rewards_of(trainer, played), trainer.num_generations),
        fresh_tasks(pool, gather_object(list(tasks)), chance),
        group=trainer.num_generations,
        first=trainer.accelerator.process_index * len(tasks),
    )


def rewards_of(trainer: _Trainer, played: Sequence[Rollout]) -> Tensor:
    """The verified rewards of all ranks' rollouts; NaN for an invalid episode."""
    mine = torch.tensor([r.reward.value if r.reward.valid else torch.nan for r in played])
    found: Tensor = trainer.accelerator.gather(mine.to(trainer.accelerator.device))
    return found


def leave_out(
    trainer: _Trainer, output: dict[str, Any], played: Sequence[Rollout], flat: Tensor, objective: Objective
) -> None:
    """Take out of TRL's scored batch, in place, what RLVR is not to learn from. ``flat``: groups of the whole batch.

    A flat group has no advantage, but rounding leaves one of 1e-8 (of 1e-4, divided by a standard deviation), which
    AdamW makes a whole step of: it is set to 0. Rows that do not count at all, as those of invalid episodes, leave
    ``tool_mask`` too, and so the number of tokens that a loss is divided by, and the KL.
    """
    first = trainer.accelerator.process_index * len(played)
    rows = flat.repeat_interleave(trainer.num_generations)[first : first + len(played)]
    truncated = torch.tensor([rollout.truncated for rollout in played]).to(rows)
    void = torch.tensor([not rollout.reward.valid for rollout in played]).to(rows)
    output["advantages"] = output["advantages"].masked_fill(rows, 0.0)
    gone = void | (rows & objective.dynamic_sampling) | (truncated & objective.mask_truncated)
    output["tool_mask"] = output["tool_mask"].masked_fill(gone[:, None], 0)
    tokens = (output["completion_mask"] * output["tool_mask"]).sum()
    output["num_items_in_batch"] = trainer.accelerator.gather(tokens).sum()


def sample(
    tasks: Sequence[str],
    play: Callable[[Sequence[str]], list[Rollout]],
    flat: Callable[[Sequence[Rollout]], Tensor],
    fresh: Iterator[str],
    *,
    group: int,
    first: int = 0,
    rounds: int = ROUNDS,
) -> Sampled:
    """One rollout of each of this rank's ``tasks``, or of those that came in their place.

    They are rows ``first``, ``first + 1``, ... of the whole batch, whose groups are ``group`` rows each; one may lie on
    two ranks. ``flat`` sees this rank's rollouts and says which groups of the whole batch are without variance: all
    ranks get the same answer, and so agree on how many rounds there are. ``fresh`` yields the same on all ranks.
    """
    now = list(tasks)
    played, replaced = play(now), 0
    before: list[list[Rollout]] = [[] for _ in now]
    again = _numbers(flat(played))
    for _ in range(rounds - 1):
        if not again:
            break
        instead = {number: next(fresh) for number in again}
        mine = [row for row in range(len(now)) if (first + row) // group in instead]
        for row in mine:
            now[row] = instead[(first + row) // group]
        for row, rollout in zip(mine, play([now[row] for row in mine]), strict=True):
            before[row].append(played[row])
            played[row] = rollout
        replaced += len(again)
        again = _numbers(flat(played))
    return Sampled(played, before, replaced, len(again))


def fresh_tasks(pool: Sequence[str], used: Iterable[str], chance: random.Random) -> Iterator[str]:
    """Those of ``pool`` that are not ``used``, in random order; then, without end, all of them, shuffled each time."""
    taken = set(used)
    unused = [task for task in pool if task not in taken]
    yield from chance.sample(unused, len(unused))
    while True:
        yield from chance.sample(list(pool), len(pool))


def _numbers(flat: Tensor) -> list[int]:
    found: list[int] = flat.nonzero().flatten().tolist()
    return found
