"""Groups without variance: another task comes in their place, or they are no part of the loss."""

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
from etude.trainers.grpo.dynamic_sampling import ROUNDS, fresh_tasks, leave_out, sample
from etude.trainers.grpo.objectives import OBJECTIVES, flat_groups, k1_in_reward, objective
from etude.trainers.grpo.trainer import Channels
from etude.trainers.rollouts.rollout import Rollout


def mixed(*good: str) -> Callable[[str, int], Rollout]:
    """Half of these tasks' episodes are solved, and none of any other's."""
    return lambda task, number: made_up(float(task in good and number % 2), task)


def played(invent: Callable[[str, int], Rollout]) -> Callable[[Sequence[str]], list[Rollout]]:
    return lambda tasks: [invent(task, number) for number, task in enumerate(tasks)]


def flat(rollouts: Sequence[Rollout]) -> torch.Tensor:
    return flat_groups(torch.tensor([rollout.reward.value for rollout in rollouts]), 2)


# --- sampling ----------------------------------------------------------------------------------------------------


def test_a_flat_group_is_replaced_by_one_of_a_fresh_task() -> None:
    found = sample(["a", "a", "b", "b"], played(mixed("a", "c")), flat, iter(["c"]), group=2)
    assert [rollout.task_id for rollout in found.rollouts] == ["a", "a", "c", "c"]
    assert (found.replaced, found.given_up) == (1, 0)


def test_what_stays_flat_is_given_up_after_three_rounds() -> None:
    rounds: list[list[str]] = []

    def play(tasks: Sequence[str]) -> list[Rollout]:
        rounds.append(list(tasks))
        return played(mixed("d"))(tasks)

    found = sample(["a", "a", "b", "b"], play, flat, iter("cdef"), group=2)
    assert rounds == [["a", "a", "b", "b"], ["c", "c", "d", "d"], ["e", "e"]] and len(rounds) == ROUNDS
    assert [rollout.task_id for rollout in found.rollouts] == ["e", "e", "d", "d"]
    assert (found.replaced, found.given_up) == (3, 1)
    assert [[rollout.task_id for rollout in row] for row in found.before] == [["a", "c"], ["a", "c"], ["b"], ["b"]]


def test_nothing_more_is_played_when_every_group_varies() -> None:
    found = sample(["a", "a"], played(mixed("a")), flat, iter([]), group=2)
    assert (found.replaced, found.given_up) == (0, 0)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (1, 7)])
def test_ranks_agree_on_tasks_and_rounds_also_where_a_group_lies_on_two_of_them(sizes: tuple[int, int]) -> None:
    """Each rank gets what ``flat`` says of all rows, as from a gather, and the same fresh tasks."""
    tasks, answers = ["a", "a", "b", "b", "c", "c", "d", "d"], []

    def noted(rollouts: Sequence[Rollout]) -> torch.Tensor:
        answers.append(flat(rollouts))
        return answers[-1]

    invent = mixed("a", "x")
    whole = sample(tasks, played(invent), noted, iter("wxyzuvst"), group=2)
    found: list[Rollout] = []
    for first, size in ((0, sizes[0]), sizes):
        said = iter(answers)
        mine = tasks[first : first + size]
        part = sample(mine, played(invent), lambda _, said=said: next(said), iter("wxyzuvst"), group=2, first=first)
        assert (part.replaced, part.given_up) == (whole.replaced, whole.given_up)
        found += part.rollouts
    assert [rollout.task_id for rollout in found] == [rollout.task_id for rollout in whole.rollouts]


def test_fresh_tasks_are_unused_ones_first_and_then_any() -> None:
    found = fresh_tasks(["a", "b", "c", "d"], ["b", "d"], random.Random(0))
    drawn = [next(found) for _ in range(10)]
    assert set(drawn[:2]) == {"a", "c"}
    assert set(drawn[2:6]) == set(drawn[6:]) | set(drawn[2:6]) == {"a", "b", "c", "d"}


# --- in the trainer ----------------------------------------------------------------------------------------------


def test_dapo_learns_from_a_fresh_task_in_the_place_of_a_flat_one(tmp_path: Path) -> None:
    """Of twelve tasks, one has no variance."""
    trainer = unplayed(tmp_path, "dapo", mixed(*(f"task-{number}" for number in range(12) if number != 1)))
    found = batch(trainer, 0, 1)
    first, second = trainer.asked
    assert second == second[:1] * GROUP and second[0] not in first
    assert [rollout.task_id for rollout in found["rollouts"]] == first[:GROUP] + second
    metrics = trainer._metrics["train"]
    assert (metrics["groups/replaced"], metrics["groups/given_up"], metrics["groups/flat"]) == ([1], [0], [0.0])
    assert found["advantages"].abs().min() > 0


def test_dapo_goes_on_with_what_there_is(tmp_path: Path) -> None:
    trainer = unplayed(tmp_path, "dapo", mixed("task-0"), tasks=12)
    batch(trainer, 0, 1)
    metrics = trainer._metrics["train"]
    assert len(trainer.asked) == ROUNDS
    assert (metrics["groups/replaced"], metrics["groups/given_up"], metrics["groups/flat"]) == ([2], [1], [0.5])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "dapo"])
def test_no_other_objective_plays_again(name: str, tmp_path: Path) -> None:
    trainer = unplayed(tmp_path, name, mixed("task-0"))
    batch(trainer, 0, 1)
    assert len(trainer.asked) == 1
    assert trainer._metrics["train"]["groups/flat"] == [0.5]
    assert "groups/replaced" not in trainer._metrics["train"]


def test_what_comes_in_is_a_function_of_the_seed_and_the_step(tmp_path: Path) -> None:
    asked = []
    for seed, step in ((1, 0), (1, 0), (1, 5), (2, 0)):
        trainer = unplayed(tmp_path, "dapo", mixed(), tasks=40, seed=seed)
        trainer.state.global_step = step
        torch.manual_seed(len(asked))  # whatever was drawn before
        batch(trainer, 0, 1)
        asked.append(trainer.asked)
    assert asked[0] == asked[1]
    assert len({str(each) for each in asked}) == 3


def test_invalid_groups_are_replaced_too(tmp_path: Path) -> None:
    trainer = unplayed(
        tmp_path, "dapo", lambda task, number: made_up(None if task == "task-1" else float(number % 2), task)
    )
    batch(trainer, 0, 1)
    assert trainer._metrics["train"]["groups/replaced"] == [1]


class AllErr(Scripted):
    """Every rollout names a tool that there is not, and then solves: no group varies."""

    erring, giving = 1.0, 0.0


def test_error_turns_of_replaced_episodes_teach(drill_url: str, tmp_path: Path) -> None:
    """Three rounds of two groups of four, each with one error turn: 24 sites, over all micro-batches."""
    parts = {
        "objective": objective("dapo"),
        "channels": Channels(distillation=lambda done: 1.0),
        "distillation": Settings(gate=False),
        "teacher": Teacher("frozen"),
    }
    tasks = [{"task_id": f"drill-choose-{seed}-l1"} for seed in range(6)]
    trainer = drilled(AllErr, drill_url, tmp_path, parts, tasks=tasks)
    batches: list[dict[str, Any]] = []
    real = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: batches.append(inputs) or real(model, inputs)
    trainer.train()
    trainer.close()
    (row,) = [row for row in trainer.state.log_history if "loss" in row]
    assert (row["distillation/chosen"], row["groups/replaced"]) == (24, 4)
    assert row["grad_norm"] > 0
    sites = [site for b in batches for _, some in taught(b) for site in some]
    assert len(sites) == 24
    assert {int(b["site_tokens"]) for b in batches} == {sum(site.end - site.start for site in sites)}


def test_replaced_episodes_count_in_what_is_logged(tmp_path: Path) -> None:
    """Groups in which all hack are flat: the kill-switch would never hear of them."""
    hack = Finding(exploit_id="a hack", severity="confirmed")

    def invent(task: str, number: int) -> Rollout:
        varies = task not in ("task-0", "task-1")
        found = made_up(float(number % 2) if varies else 1.0, task)
        return found if varies else replace(found, findings=[hack])

    trainer = unplayed(tmp_path, "dapo", invent)
    batch(trainer, 0, 1)
    metrics = trainer._metrics["train"]
    assert (metrics["groups/replaced"], metrics["episodes/hack_rate"]) == ([2], [0.5])


def taught(inputs: dict[str, Any]) -> list[Any]:
    return [*zip(inputs["rollouts"], inputs["sites"], strict=True), *(pair for row in inputs["before"] for pair in row)]


# --- advantages, and what is left out ----------------------------------------------------------------------------

REWARDS: dict[str, list[float | None]] = {
    "task-0": [1.0, 0.0, 0.0, 0.5],
    "task-1": [0.25, None, 0.5, 1.0],
    "task-2": [0.7, 0.7, 0.7, 0.7],
    "task-3": [None, None, 0.3, None],
}


def given(task: str, number: int) -> Rollout:
    return made_up(REWARDS[task][number], task)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_advantages_are_their_formula(name: str, tmp_path: Path) -> None:
    """R - mean for Dr.GRPO, over the standard deviation + 1e-4 for the others, of the valid episodes of the group."""
    trainer = unplayed(tmp_path, name, given, tasks=4)
    trainer.parts.objective = objective("grpo")  # plays once, without a penalty for length
    found = batch(trainer, 0, 1)["advantages"].tolist()
    wanted = []
    for rewards in (REWARDS["task-0"], REWARDS["task-1"]):
        valid = [reward for reward in rewards if reward is not None]
        mean = sum(valid) / len(valid)
        spread = (sum((reward - mean) ** 2 for reward in valid) / (len(valid) - 1)) ** 0.5
        scale = 1.0 if name == "dr_grpo" else spread + 1e-4
        wanted += [0.0 if reward is None else (reward - mean) / scale for reward in rewards]
    assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_group_without_variance_gives_exactly_nothing(name: str, tmp_path: Path) -> None:
    """The mean of eight times 0.7 is not 0.7 in float32."""
    trainer = unplayed(tmp_path, name, lambda task, number: made_up(0.7, task), num_generations=8)
    found = batch(trainer, 2)
    assert found["advantages"].tolist() == [0.0] * 8
    loss = loss_of(trainer, found)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(float(p.grad.abs().max()) == 0.0 for p in trainer.model.parameters() if p.grad is not None)


def test_what_dapo_gives_up_is_not_in_the_number_of_tokens_that_it_divides_by(tmp_path: Path) -> None:
    """The loss is that of the group that varies alone."""
    invent = mixed("task-0")
    both = unplayed(tmp_path, "dapo", invent)
    alone = unplayed(tmp_path, "dapo", invent)
    two, one = batch(both, 0, 1), batch(alone, 0)
    assert int(two["num_items_in_batch"]) == int(one["num_items_in_batch"]) == GROUP * 5
    torch.testing.assert_close(loss_of(both, two), loss_of(alone, one))


def test_an_invalid_episode_is_in_no_token_of_the_loss(tmp_path: Path) -> None:
    """Nor in a KL that is taken from the reward: its group's mean is that of the others."""
    trainer = unplayed(tmp_path, "dr_grpo", given, tasks=4)
    found = batch(trainer, 1)
    sampled = (found["completion_mask"] * found["tool_mask"]).sum(-1).tolist()
    assert sampled == [5, 0, 5, 5] and int(found["num_items_in_batch"]) == 15
    policy = torch.randn(4, found["tool_mask"].size(1))
    mask = found["completion_mask"] * found["tool_mask"]
    less = k1_in_reward(torch.zeros(4), policy, torch.zeros_like(policy), mask, 4, 0.1)
    assert less[1] == 0 and float(less.sum()) == pytest.approx(0, abs=1e-6)


def test_what_is_left_out_is_left_out_where_the_batch_lies() -> None:
    """As on a GPU: fake tensors know their device as real ones do, and refuse those of another."""
    played = [made_up(1.0), made_up(None), made_up(0.0, truncated=True), made_up(0.0)]
    with FakeTensorMode():
        there: Any = {"device": "meta"}
        accelerator = SimpleNamespace(process_index=0, gather=lambda value: value)
        trainer: Any = SimpleNamespace(accelerator=accelerator, num_generations=2)
        output = {"advantages": torch.ones(4, **there)}
        output |= {name: torch.ones(4, 5, dtype=torch.long, **there) for name in ("tool_mask", "completion_mask")}
        flat = flat_groups(torch.ones(4, **there), 2)
        leave_out(trainer, output, played, flat, objective("dapo"))
        assert {value.device.type for value in (flat, *output.values())} == {"meta"}


@pytest.mark.parametrize(("name", "kept"), [("dapo", False), ("grpo", True), ("dr_grpo", True)])
def test_dapo_alone_masks_an_episode_whose_room_ran_out(name: str, kept: bool, tmp_path: Path) -> None:
    """Also one whose last turn is whole."""
    trainer = unplayed(
        tmp_path, name, lambda task, number: made_up(float(number % 2), task, truncated=number == 0), tasks=4
    )
    found = batch(trainer, 0)
    sampled = (found["completion_mask"] * found["tool_mask"]).sum(-1).tolist()
    assert sampled == [5 if kept else 0, 5, 5, 5]
    assert int(found["num_items_in_batch"]) == sum(sampled)
    assert found["advantages"][0] != 0  # its reward counts in the group's mean all the same


def test_dapo_alone_takes_from_the_reward_of_what_runs_long(tmp_path: Path) -> None:
    """60 ids of room, of which the last 12 cost: 54 are half too long."""
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
    found: torch.Tensor = trainer._compute_loss(trainer.model, scored)
    return found
