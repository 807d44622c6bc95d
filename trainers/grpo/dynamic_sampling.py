"""Groups whose episodes all got the same reward: they have no advantage, so RLVR cannot learn from them.

They are counted and left out of the loss. With dynamic sampling (DAPO, arXiv:2503.14476, section 3.2) another task is
played instead of each, until every group has some variance or ``ROUNDS`` are used up. A replaced group does not take
part in RLVR, but its error turns are still sites of distillation, and its episodes count in the metrics. Replacement
tasks depend on the run's seed, the step and the rewards alone, so that all ranks, and a resumed run, choose the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..distributed import gather_from_ranks
from ..rollouts.rollout import Rollout
from .objectives import Objective, flat_groups

ROUNDS = 3
"""Rounds of generation, at most, the first one included; groups that are flat after the last one are given up."""


@dataclass(frozen=True)
class SampledBatch:
    """Rollouts of a batch of episodes on this rank."""

    rollouts: list[Rollout]
    """One rollout for each row of this rank, [B]."""
    replaced: list[list[Rollout]]
    """For each row, the earlier rollouts that its rollout replaced; empty lists without dynamic sampling."""
    groups_replaced: int = 0
    """Replacements of groups on all ranks; a group that was replaced twice counts twice."""
    groups_given_up: int = 0
    """Groups on all ranks that are still without variance."""


class _Trainer(Protocol):
    """The part of ``trainer.EtudeTrainer`` that is used here."""

    args: Any
    state: Any
    accelerator: Any
    num_generations: int

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]: ...


def play_until_varied(trainer: _Trainer, tasks: Sequence[str], pool: Sequence[str]) -> SampledBatch:
    """Play this rank's tasks with dynamic sampling. ``tasks`` and ``pool`` hold arguments of ``reset`` as JSON."""
    all_tasks = [task for of_rank in gather_from_ranks(list(tasks)) for task in of_rank]
    rng = random.Random(f"fresh {trainer.args.seed} {trainer.state.global_step}")
    return sample(
        tasks,
        lambda some: trainer.play([json.loads(task) for task in some]),
        lambda rollouts: flat_groups(gather_rewards(trainer, rollouts), trainer.num_generations),
        fresh_tasks(pool, all_tasks, rng),
        group=trainer.num_generations,
        first=trainer.accelerator.process_index * len(tasks),
    )


def gather_rewards(trainer: _Trainer, rollouts: Sequence[Rollout], penalties: Sequence[float] | None = None) -> Tensor:
    """Return the verified rewards of all ranks' rollouts, [B of all ranks]; NaN for an invalid episode.

    ``penalties``, if given, are added to the rewards of this rank's rollouts.
    """
    added = [0.0] * len(rollouts) if penalties is None else penalties
    values = [r.reward.value + add if r.reward.valid else torch.nan for r, add in zip(rollouts, added, strict=True)]
    local = torch.tensor(values)
    rewards: Tensor = trainer.accelerator.gather(local.to(trainer.accelerator.device))
    return rewards


def exclude_from_rlvr(
    trainer: _Trainer, output: dict[str, Any], rollouts: Sequence[Rollout], flat: Tensor, objective: Objective
) -> None:
    """Change TRL's scored batch in place so that RLVR learns nothing from some of its rows.

    ``flat`` marks the groups of all ranks without variance. A flat group has no advantage, but rounding leaves one of
    1e-8 (1e-4 after the division by a standard deviation), which AdamW turns into a full step: it is set to 0. Rows
    that must not count at all, such as those of invalid episodes, are also removed from ``tool_mask``, and so from the
    number of tokens that a loss is divided by, and from the KL.
    """
    first = trainer.accelerator.process_index * len(rollouts)
    flat_rows = flat.repeat_interleave(trainer.num_generations)[first : first + len(rollouts)]
    truncated = torch.tensor([rollout.truncated for rollout in rollouts]).to(flat_rows)
    invalid = torch.tensor([not rollout.reward.valid for rollout in rollouts]).to(flat_rows)
    output["advantages"] = output["advantages"].masked_fill(flat_rows, 0.0)
    excluded = invalid | (flat_rows & objective.dynamic_sampling) | (truncated & objective.mask_truncated)
    output["tool_mask"] = output["tool_mask"].masked_fill(excluded[:, None], 0)
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
) -> SampledBatch:
    """Return one rollout of each of this rank's ``tasks``, or of the task that replaced it.

    The tasks are rows ``first``, ``first + 1``, ... of the batch of all ranks, whose groups have ``group`` rows each; a
    group may lie on two ranks. ``flat`` takes this rank's rollouts and returns which groups of all ranks have no
    variance: it gives all ranks the same answer, so they agree on the number of rounds. ``fresh`` yields the same
    tasks on all ranks.
    """
    current = list(tasks)
    rollouts, groups_replaced = play(current), 0
    replaced: list[list[Rollout]] = [[] for _ in current]
    flat_numbers = flat(rollouts).nonzero().flatten().tolist()
    for _ in range(ROUNDS - 1):
        if not flat_numbers:
            break
        replacement = {number: next(fresh) for number in flat_numbers}
        rows = [row for row in range(len(current)) if (first + row) // group in replacement]
        for row in rows:
            current[row] = replacement[(first + row) // group]
        for row, rollout in zip(rows, play([current[row] for row in rows]), strict=True):
            replaced[row].append(rollouts[row])
            rollouts[row] = rollout
        groups_replaced += len(flat_numbers)
        flat_numbers = flat(rollouts).nonzero().flatten().tolist()
    return SampledBatch(rollouts, replaced, groups_replaced, len(flat_numbers))


def fresh_tasks(pool: Sequence[str], used: Iterable[str], rng: random.Random) -> Iterator[str]:
    """Yield the tasks of ``pool`` that are not in ``used``, in random order; then, endlessly, all tasks, shuffled."""
    excluded = set(used)
    unused = [task for task in pool if task not in excluded]
    yield from rng.sample(unused, len(unused))
    while True:
        yield from rng.sample(list(pool), len(pool))
