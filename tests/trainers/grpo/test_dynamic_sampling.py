"""Groups without variance: they are replaced by other tasks, or left out of the loss."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import GROUP, Unplayed, batch, drilled, made_up, unplayed
from helpers.scripted_policy import Scripted
from torch._subclasses.fake_tensor import FakeTensorMode

from etude.models import Finding
from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.dynamic_sampling import ROUNDS, exclude_from_rlvr, fresh_tasks, sample
from etude.trainers.grpo.objectives import OBJECTIVES, flat_groups, objective, subtract_k1
from etude.trainers.grpo.parts import ChannelWeights
from etude.trainers.grpo.scored_batch import ScoredBatch
from etude.trainers.rollouts.rollout import Rollout


def mixed(*good: str) -> Callable[[str, int], Rollout]:
    """Return rollouts of which half are solved for these tasks, and none for any other task."""
    return lambda task, number: made_up(float(task in good and number % 2), task)


def playing(invent: Callable[[str, int], Rollout]) -> Callable[[Sequence[str]], list[Rollout]]:
    return lambda tasks: [invent(task, number) for number, task in enumerate(tasks)]


def flat(rollouts: Sequence[Rollout]) -> torch.Tensor:
    return flat_groups(torch.tensor([rollout.reward.value for rollout in rollouts]), 2)


# --- sampling ----------------------------------------------------------------------------------------------------


def test_sample_replaces_a_flat_group_by_a_fresh_task() -> None:
    sampled = sample(["a", "a", "b", "b"], playing(mixed("a", "c")), flat, iter(["c"]), group=2)
    assert [rollout.task_id for rollout in sampled.rollouts] == ["a", "a", "c", "c"]
    assert (sampled.groups_replaced, sampled.groups_given_up) == (1, 0)


def test_sample_gives_up_groups_that_are_flat_after_three_rounds() -> None:
    rounds: list[list[str]] = []

    def play(tasks: Sequence[str]) -> list[Rollout]:
        rounds.append(list(tasks))
        return playing(mixed("d"))(tasks)

    sampled = sample(["a", "a", "b", "b"], play, flat, iter("cdef"), group=2)
    assert rounds == [["a", "a", "b", "b"], ["c", "c", "d", "d"], ["e", "e"]] and len(rounds) == ROUNDS
    assert [rollout.task_id for rollout in sampled.rollouts] == ["e", "e", "d", "d"]
    assert (sampled.groups_replaced, sampled.groups_given_up) == (3, 1)
    assert [[rollout.task_id for rollout in row] for row in sampled.replaced] == [["a", "c"], ["a", "c"], ["b"], ["b"]]


def test_sample_plays_one_round_when_every_group_varies() -> None:
    sampled = sample(["a", "a"], playing(mixed("a")), flat, iter([]), group=2)
    assert (sampled.groups_replaced, sampled.groups_given_up) == (0, 0)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (1, 7)])
def test_ranks_sample_the_same_as_one_process_when_a_group_lies_on_two_of_them(sizes: tuple[int, int]) -> None:
    """Each rank gets the answer of ``flat`` for all rows, as from a gather, and the same fresh tasks."""
    tasks, answers = ["a", "a", "b", "b", "c", "c", "d", "d"], []

    def recorded_flat(rollouts: Sequence[Rollout]) -> torch.Tensor:
        answers.append(flat(rollouts))
        return answers[-1]

    invent = mixed("a", "x")
    whole = sample(tasks, playing(invent), recorded_flat, iter("wxyzuvst"), group=2)
    rollouts: list[Rollout] = []
    for first, size in ((0, sizes[0]), sizes):
        replies = iter(answers)
        rows = tasks[first : first + size]
        part = sample(rows, playing(invent), lambda _, it=replies: next(it), iter("wxyzuvst"), group=2, first=first)
        assert part.groups_replaced == whole.groups_replaced
        assert part.groups_given_up == whole.groups_given_up
        rollouts += part.rollouts
    assert [rollout.task_id for rollout in rollouts] == [rollout.task_id for rollout in whole.rollouts]


def test_fresh_tasks_yields_unused_tasks_first_and_then_all() -> None:
    tasks = fresh_tasks(["a", "b", "c", "d"], ["b", "d"], random.Random(0))
    drawn = [next(tasks) for _ in range(10)]
    assert set(drawn[:2]) == {"a", "c"}
    assert set(drawn[2:6]) == set(drawn[6:]) | set(drawn[2:6]) == {"a", "b", "c", "d"}


# --- in the trainer ----------------------------------------------------------------------------------------------


def test_dapo_learns_from_the_task_that_replaced_a_flat_one(tmp_path: Path) -> None:
    """One of twelve tasks has no variance."""
    trainer = unplayed(tmp_path, "dapo", mixed(*(f"task-{number}" for number in range(12) if number != 1)))
    scored = batch(trainer, 0, 1)
    first, second = trainer.rounds
    assert second == second[:1] * GROUP and second[0] not in first
    assert [row.rollout.task_id for row in ScoredBatch.from_inputs(scored).rows] == first[:GROUP] + second
    metrics = trainer._metrics["train"]
    assert (metrics["groups/replaced"], metrics["groups/given_up"], metrics["groups/flat"]) == ([1], [0], [0.0])
    assert scored["advantages"].abs().min() > 0


def test_dapo_learns_from_the_remaining_groups_when_it_gives_some_up(tmp_path: Path) -> None:
    trainer = unplayed(tmp_path, "dapo", mixed("task-0"), tasks=12)
    batch(trainer, 0, 1)
    metrics = trainer._metrics["train"]
    assert len(trainer.rounds) == ROUNDS
    assert (metrics["groups/replaced"], metrics["groups/given_up"], metrics["groups/flat"]) == ([2], [1], [0.5])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "dapo"])
def test_other_objectives_play_each_task_once(name: str, tmp_path: Path) -> None:
    trainer = unplayed(tmp_path, name, mixed("task-0"))
    batch(trainer, 0, 1)
    assert len(trainer.rounds) == 1
    assert trainer._metrics["train"]["groups/flat"] == [0.5]
    assert "groups/replaced" not in trainer._metrics["train"]


def test_replacement_tasks_depend_on_the_seed_and_the_step_alone(tmp_path: Path) -> None:
    rounds = []
    for seed, step in ((1, 0), (1, 0), (1, 5), (2, 0)):
        trainer = unplayed(tmp_path, "dapo", mixed(), tasks=40, seed=seed)
        trainer.state.global_step = step
        torch.manual_seed(len(rounds))  # earlier random draws must not matter
        batch(trainer, 0, 1)
        rounds.append(trainer.rounds)
    assert rounds[0] == rounds[1]
    assert len(set(map(str, rounds))) == 3


def test_dapo_replaces_invalid_groups_too(tmp_path: Path) -> None:
    trainer = unplayed(
        tmp_path, "dapo", lambda task, number: made_up(None if task == "task-1" else float(number % 2), task)
    )
    batch(trainer, 0, 1)
    assert trainer._metrics["train"]["groups/replaced"] == [1]


class AllErr(Scripted):
    """Trainer whose rollouts all err once and then solve the task, so that no group varies."""

    erring, giving_up = 1.0, 0.0


def test_error_turns_of_replaced_episodes_are_distilled(drill_url: str, tmp_path: Path) -> None:
    """Three rounds of two groups of four, each with one error turn: 24 sites, over all micro-batches."""
    parts = {
        "objective": objective("dapo"),
        "channels": ChannelWeights(distillation=lambda share: 1.0),
        "distillation": Settings(gate=False),
        "teacher": Teacher("frozen"),
    }
    tasks = [{"task_id": f"drill-choose-{seed}-l1"} for seed in range(6)]
    trainer = drilled(AllErr, drill_url, tmp_path, parts, tasks=tasks)
    batches: list[ScoredBatch] = []
    original = trainer._compute_loss

    def compute_loss(model: Any, inputs: dict[str, Any]) -> Any:
        batches.append(ScoredBatch.from_inputs(inputs))
        return original(model, inputs)

    trainer._compute_loss = compute_loss
    trainer.train()
    trainer.close()
    (row,) = [row for row in trainer.state.log_history if "loss" in row]
    assert (row["distillation/chosen"], row["groups/replaced"]) == (24, 4)
    assert row["grad_norm"] > 0
    sites = [site for b in batches for _, rollout_sites in b.rollouts_with_sites() for site in rollout_sites]
    assert len(sites) == 24
    expected = sum(site.weight * (site.end - site.start) for site in sites)
    assert [float(b.site_weight) for b in batches] == pytest.approx([expected] * len(batches))


def test_replaced_episodes_count_in_the_metrics(tmp_path: Path) -> None:
    """Groups in which every episode is a hack are flat: the kill switch would not see them otherwise."""
    hack = Finding(exploit_id="a hack", severity="confirmed")

    def invent(task: str, number: int) -> Rollout:
        varies = task not in ("task-0", "task-1")
        rollout = made_up(float(number % 2) if varies else 1.0, task)
        return rollout if varies else replace(rollout, findings=[hack])

    trainer = unplayed(tmp_path, "dapo", invent)
    batch(trainer, 0, 1)
    metrics = trainer._metrics["train"]
    assert (metrics["groups/replaced"], metrics["episodes/hack_rate"]) == ([2], [0.5])


# --- advantages, and excluded rows --- ----------------------------------------------------------------------------

REWARDS: dict[str, list[float | None]] = {
    "task-0": [1.0, 0.0, 0.0, 0.5],
    "task-1": [0.25, None, 0.5, 1.0],
    "task-2": [0.7, 0.7, 0.7, 0.7],
    "task-3": [None, None, 0.3, None],
}


def rewarded(task: str, number: int) -> Rollout:
    return made_up(REWARDS[task][number], task)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_advantages_follow_their_formula(name: str, tmp_path: Path) -> None:
    """R - mean over the valid episodes of the group; all but Dr.GRPO divide by the standard deviation + 1e-4."""
    trainer = unplayed(tmp_path, name, rewarded, tasks=4)
    trainer.parts.objective = objective("grpo")  # plays once, without a penalty for length
    advantages = batch(trainer, 0, 1)["advantages"].tolist()
    expected = []
    for rewards in (REWARDS["task-0"], REWARDS["task-1"]):
        valid = [reward for reward in rewards if reward is not None]
        mean = sum(valid) / len(valid)
        spread = (sum((reward - mean) ** 2 for reward in valid) / (len(valid) - 1)) ** 0.5
        scale = 1.0 if name == "dr_grpo" else spread + 1e-4
        expected += [0.0 if reward is None else (reward - mean) / scale for reward in rewards]
    assert advantages == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_group_without_variance_has_exactly_no_gradient(name: str, tmp_path: Path) -> None:
    """In float32, the mean of eight times 0.7 is not 0.7."""
    trainer = unplayed(tmp_path, name, lambda task, number: made_up(0.7, task), num_generations=8)
    scored = batch(trainer, 2)
    assert scored["advantages"].tolist() == [0.0] * 8
    loss = loss_of(trainer, scored)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(float(p.grad.abs().max()) == 0.0 for p in trainer.model.parameters() if p.grad is not None)


def test_dapo_does_not_divide_by_the_tokens_of_groups_that_it_gives_up(tmp_path: Path) -> None:
    """The loss is that of the group with variance."""
    invent = mixed("task-0")
    both = unplayed(tmp_path, "dapo", invent)
    alone = unplayed(tmp_path, "dapo", invent)
    two, one = batch(both, 0, 1), batch(alone, 0)
    assert int(two["num_items_in_batch"]) == int(one["num_items_in_batch"]) == GROUP * 5
    torch.testing.assert_close(loss_of(both, two), loss_of(alone, one))


def test_invalid_episode_adds_no_token_to_the_loss(tmp_path: Path) -> None:
    """It is left out of k1 too: the mean of its group is that of the other episodes."""
    trainer = unplayed(tmp_path, "dr_grpo", rewarded, tasks=4)
    scored = batch(trainer, 1)
    mask = scored["completion_mask"] * scored["tool_mask"]
    assert mask.sum(-1).tolist() == [5, 0, 5, 5] and int(scored["num_items_in_batch"]) == 15
    policy = torch.randn(4, scored["tool_mask"].size(1))
    advantages = subtract_k1(torch.zeros(4), policy, torch.zeros_like(policy), mask, 4, 0.1)
    assert advantages[1] == 0 and float(advantages.sum()) == pytest.approx(0, abs=1e-6)


def test_exclude_from_rlvr_stays_on_the_device_of_the_batch() -> None:
    """Fake tensors have a device as real ones on a GPU do, and refuse tensors of another device."""
    rollouts = [made_up(1.0), made_up(None), made_up(0.0, truncated=True), made_up(0.0)]
    with FakeTensorMode():
        options: Any = {"device": "meta"}
        accelerator = SimpleNamespace(process_index=0, gather=lambda value: value)
        trainer: Any = SimpleNamespace(accelerator=accelerator, num_generations=2)
        output = {"advantages": torch.ones(4, **options)}
        output |= {name: torch.ones(4, 5, dtype=torch.long, **options) for name in ("tool_mask", "completion_mask")}
        flat = flat_groups(torch.ones(4, **options), 2)
        exclude_from_rlvr(trainer, output, rollouts, flat, objective("dapo"))
        assert {value.device.type for value in (flat, *output.values())} == {"meta"}


@pytest.mark.parametrize(("name", "masked"), [("dapo", True), ("grpo", False), ("dr_grpo", False)])
def test_only_dapo_masks_an_episode_that_ran_out_of_room(name: str, masked: bool, tmp_path: Path) -> None:
    """The last turn of this episode is complete."""
    trainer = unplayed(
        tmp_path, name, lambda task, number: made_up(float(number % 2), task, truncated=number == 0), tasks=4
    )
    scored = batch(trainer, 0)
    sampled = (scored["completion_mask"] * scored["tool_mask"]).sum(-1).tolist()
    assert sampled == [0 if masked else 5, 5, 5, 5]
    assert int(scored["num_items_in_batch"]) == sum(sampled)
    assert scored["advantages"][0] != 0  # its reward counts in the mean of its group nevertheless


def test_only_dapo_lowers_the_reward_of_long_episodes(tmp_path: Path) -> None:
    """The last 12 of 60 ids lower the reward: 54 ids lower it by half."""
    means = {}
    for name in ("dapo", "dr_grpo"):
        trainer = unplayed(
            tmp_path, name, lambda task, number: made_up(float(number % 2), task, turns=(54,) if number % 2 else (9,))
        )
        batch(trainer, 0)
        means[name] = trainer._metrics["train"]["reward"]
    assert means == {"dapo": [0.25], "dr_grpo": [0.5]}


def loss_of(trainer: Unplayed, scored: dict[str, Any]) -> torch.Tensor:
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = 1
    loss: torch.Tensor = trainer._compute_loss(trainer.model, scored)
    return loss
