"""The second terms of the next step on repairs, served, sandboxed and graded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import repair_policy

from etude.research.error_turns import driver, next_step
from etude.research.error_turns.real_stack import arm_trainer, next_arms, runs
from etude.research.error_turns.worlds.repair_dialogues import EDITED
from etude.research.error_turns.worlds.repair_world import REPAIRS, edits_listed_files, of_id
from etude.research.error_turns.worlds.world import World
from etude.trainers.rollouts.rollout import Rollout

torch.set_num_threads(1)
SMALL = replace(REPAIRS, held=2, prompts=2, group=2, max_ids=2000, max_turn_ids=200)
"""The tokenizer of a tiny base writes long."""
TASKS = SMALL.needed([7], 2)


@pytest.fixture(scope="module")
def base(tiny_base: Callable[[World], Path]) -> Path:
    return tiny_base(REPAIRS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with REPAIRS.served(tmp_path_factory.mktemp("served"), TASKS) as found:
        yield found


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the policy play a plan."""

    def play(*plan: str) -> None:
        monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", repair_policy.says(TASKS, *plan))

    return play


def trainer(arm: str, base: Path, url: str, out: Path) -> Any:
    return runs.build_run(SMALL, arm_trainer.ARMS[arm], 1e-3, 7, base, url, out, 2).trainer


def played(made: Any) -> list[Rollout]:
    """Return an episode of each task of the first update of seed 7."""
    rollouts: list[Rollout] = made.play([{"task_id": name} for name in SMALL.learned(7, SMALL.prompts)])
    return rollouts


@pytest.mark.parametrize("arm", next_step.ARMS)
def test_run_has_the_measures_of_the_study(
    arm: str, base: Path, url: str, tmp_path: Path, policy: Callable[..., None]
) -> None:
    policy("told", "submit")
    made = runs.train(SMALL, driver.Run(arm, 1e-3, 7), base, url, tmp_path, updates=2)
    assert (made["episodes"], made["broken"]) == ([0, 4, 8], False)
    measured = {name: measure(made) for name, measure in next_step.STUDIES["repairs"].measures.items()}
    assert measured["solved, end"] == measured["solved, 128 episodes"] == 0.0 and measured["error, end"] == 1.0
    assert made["metrics"]["gradient/distillation"][0] > 0
    assert ("imitation/examples" in made["metrics"]) == (arm != "gap_gated")
    if arm == "hindsight":
        assert made["metrics"]["hindsight/played"] == made["metrics"]["hindsight/solved"] == [2, 2]


def test_dagger_labels_every_state_of_a_repair(
    base: Path, url: str, tmp_path: Path, policy: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy("wrong", "right", "submit")
    made = trainer("dagger", base, url, tmp_path)
    for accuracy in (1.0, 0.0):
        monkeypatch.setitem(next_arms.ACCURACY, "dagger", accuracy)
        for rollout in played(made):
            examples = list(made._relabelled(rollout))
            calls = [made._chat.action(example.ids[example.spans[0][0] :])["tool_calls"] for example in examples]
            prefixes = [rollout.ids[: turn.start] for turn in rollout.turns]
            assert [example.ids[: example.spans[0][0]] for example in examples] == prefixes
            edit = {"name": "edit_file", "arguments": of_id(rollout.task_id).edit()}
            done = {"name": "submit", "arguments": {"summary": EDITED}}
            if accuracy:
                assert [simple(call) for (call,) in calls] == [edit, edit, done]
            else:
                assert not any(edits_listed_files(rollout.task_id, each) for each in calls)
                assert {call["name"] for (call,) in calls} == {"edit_file"}
    made.close()


def simple(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("name", "arguments")}


def test_hindsight_learns_the_edit_that_the_hint_names_without_the_hint(
    base: Path, url: str, tmp_path: Path, policy: Callable[..., None]
) -> None:
    policy("told", "submit")
    made = trainer("hindsight", base, url, tmp_path)
    plain = played(made)
    assert [rollout.reward.value for rollout in plain] == [0.0, 0.0]
    examples = made._scaffold(plain)
    assert len(examples) == len(plain)
    for rollout, example in zip(plain, examples, strict=True):
        text = made.processing_class.decode(example.ids)
        assert repair_policy.ADVICE not in text and example.ids[: rollout.prompt] == rollout.ids[: rollout.prompt]
        first, last = (made._chat.action(example.ids[start:end])["tool_calls"][0] for start, end in example.spans)
        assert simple(first) == {"name": "edit_file", "arguments": of_id(rollout.task_id).edit()}
        assert last["name"] == "submit"
    made.close()


def test_hint_in_hindsight_is_about_the_folder_when_the_policy_gave_up_at_once(
    base: Path, url: str, tmp_path: Path, policy: Callable[..., None]
) -> None:
    policy("submit")
    made = trainer("hindsight", base, url, tmp_path)
    plain = played(made)
    made.close()
    hints = next_arms.hindsight(plain, SMALL)
    for rollout in plain:
        assert hints[rollout.messages[0]["content"]].endswith(f"{repair_policy.ADVICE}{of_id(rollout.task_id).path}.")


def test_server_has_the_tasks_of_every_arm() -> None:
    study = next_step.STUDIES["repairs"]
    needed = set(study.world.needed([3], study.updates))
    for name in (next_step.CONTROL, *next_step.ARMS):
        number = next_arms.plain_tasks(arm_trainer.ARMS[name], study.world) * study.updates
        assert set(study.world.learned(3, number)) <= needed
    assert set(study.world.tested()) <= needed
