"""Tests of TRL 1.16's own GRPOTrainer with our environment_factory: a served drill, a tiny model, scripted turns."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import TASKS
from helpers.stock_trainer import END, Scripted, build_trainer, called, solved, through

from etude.client import connect
from etude.errors import ServerFull
from etude.trainers.integrations.environment import environment_factory
from etude.trainers.integrations.together import ToolsTogether

LIMIT = 4
TASK = TASKS.list_tasks("train")[0].task_id


class Together(ToolsTogether, Scripted):
    pass


def logs(trainer: Any, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if name in row]


def mixed(task_id: str, place: int, number: int) -> str:
    """Return a turn by place: solved, answered wrongly, an unknown tool first, and never submitted."""
    if place == 1:
        return through("submit", {"answer": "unknown"}) if number == 0 else "Done."
    if place == 2:
        return through("no_such_tool", {}) if number == 0 else solved(task_id, number - 1, through)
    if place == 3 and number == 1:
        return "I think that is it."
    return solved(task_id, number, through)


def free_sessions(url: str) -> int:
    """Return how many more sessions the server has room for."""
    opened = []
    try:
        while len(opened) <= LIMIT:
            opened.append(connect(url))
            opened[-1].reset(task_id=TASK)
    except ServerFull:
        opened.pop().close()
    finally:
        for client in opened:
            client.close()
    return len(opened)


@pytest.mark.parametrize("base", [Scripted, Together])
def test_trainer_gets_the_right_rewards_masks_and_sessions(base: type, limited_url: str, tmp_path: Path) -> None:
    factory = environment_factory(limited_url, tasks=[task.task_id for task in TASKS.list_tasks("train")[:3]])
    trainer = build_trainer(base, factory, mixed, tmp_path)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    assert logs(trainer, "rewards/EtudeEnvironment/mean") == logs(trainer, "reward") == [0.5, 0.5]
    assert any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
    assert [environment.get_reward() for environment in trainer.environments] == [1.0, 0.0, 1.0, 0.0]
    ends = [
        (environment.outcome.end, [e.kind for e in environment.error_turns]) for environment in trainer.environments
    ]
    assert ends[0] == ("submit", []) and ends[2][1] == ["tool_not_found"] and ends[3] == ("submit", [])
    assert trainer.environments[2].error_turns[0].hints and trainer.environments[2].error_turns[0].turn == 0
    for batch in trainer.batches:
        for place, (ids, mask) in enumerate(zip(batch["completion_ids"], batch["tool_mask"], strict=True)):
            trained = (mask * batch["completion_mask"][place]).bool()
            text = trainer.processing_class.decode(ids[trained])
            task = trainer.environments[place].outcome.task_id if batch is trainer.batches[-1] else None
            if task:
                number = [3, 2, 4, 2][place]
                assert text == "".join(mixed(task, place, turn) + END for turn in range(number))
            assert "<tool_response>" in trainer.processing_class.decode(ids) and "<tool_response>" not in text
    assert free_sessions(limited_url) == 0
    factory.close()
    assert free_sessions(limited_url) == LIMIT


def test_several_servers_have_a_reward_each(limited_url: str, meeting: Callable[[int], Any], tmp_path: Path) -> None:
    with meeting(1) as served:
        urls = {"First": limited_url, "Second": served.url}
        factories = {name: environment_factory(url, tasks=[TASK], name=name) for name, url in urls.items()}
        urls_played: dict[str, set[str]] = {}

        def turn(task: str, place: int, number: int) -> str:
            environment = trainer.environments[place]
            urls_played.setdefault(type(environment).__name__, set()).add(environment._sessions.url)
            solves = isinstance(environment, factories["First"]._class)
            return solved(task, number, called) if solves else "Done."

        trainer = build_trainer(Together, factories, turn, tmp_path)  # two steps: one group of each server
        trainer.train()
        assert urls_played == {name: {url} for name, url in urls.items()}
        means = {name: logs(trainer, f"rewards/{name}/mean") for name in urls}
        assert {name: [mean for mean in values if mean is not None] for name, values in means.items()} == {
            "First": [1.0],
            "Second": [0.0],
        }
        for factory in factories.values():
            factory.close()


def test_tools_are_methods_when_all_tasks_have_the_same(limited_url: str, tmp_path: Path) -> None:
    """Two calls of one turn are one turn of the episode, in their order."""
    factory = environment_factory(limited_url, tasks=[TASK])
    drill = TASKS.drill(TASK)
    ((name, arguments),) = drill.solution()

    def turn(task_id: str, place: int, number: int) -> str:
        if number:
            return "Done."
        return called(name, arguments) + "\n" + called("submit", {"answer": drill.answer if place else "unknown"})

    trainer = build_trainer(Scripted, factory, turn, tmp_path, max_steps=1)
    assert sorted(tool.__name__ for tool in trainer.tools) == sorted([*(tool.name for tool in drill.tools), "submit"])
    trainer.train()
    outcomes = [one.outcome for one in trainer.environments]
    assert [(one.reward, one.turns) for one in outcomes] == [(0.0, 1), (1.0, 1), (1.0, 1), (1.0, 1)]
    factory.close()


def test_wrong_argument_reaches_the_server(limited_url: str, tmp_path: Path) -> None:
    factory = environment_factory(limited_url, tasks=[TASK])
    ((name, _),) = TASKS.drill(TASK).solution()
    trainer = build_trainer(
        Scripted, factory, lambda task, place, number: "Done." if number else called(name, {"nonsense": 1}), tmp_path
    )
    trainer.train()
    assert [[e.kind for e in environment.error_turns] for environment in trainer.environments] == [["invalid_args"]] * 4
    assert logs(trainer, "tools/failure_frequency") == [0.0, 0.0]  # TRL does not see the failures
    factory.close()


@pytest.mark.parametrize(("base", "kinds"), [(Scripted, []), (Together, ["tool_not_found"])])
def test_unknown_tool_is_an_error_turn_only_with_tools_together(
    base: type, kinds: list[str], limited_url: str, tmp_path: Path
) -> None:
    factory = environment_factory(limited_url, tasks=[TASK])
    trainer = build_trainer(
        base,
        factory,
        lambda task, place, number: "Done." if number else called("no_such_tool", {}),
        tmp_path,
        max_steps=1,
    )
    trainer.train()
    assert [[e.kind for e in environment.error_turns] for environment in trainer.environments] == [kinds] * 4
    factory.close()


def test_tools_of_a_batch_run_at_the_same_time(meeting: Callable[[int], Any], tmp_path: Path) -> None:
    """No turn ends before all four are being played."""
    with meeting(4) as served:
        factory = environment_factory(served.url, tasks=[TASK])
        trainer = build_trainer(
            Together, factory, lambda task, place, number: solved(task, number, called), tmp_path, max_steps=1
        )
        trainer.train()
        assert logs(trainer, "reward") == [1.0]
        assert served.sessions == 4
        factory.close()
        assert served.wait_until(lambda: served.sessions == 0)


def test_lost_session_has_no_reward_and_the_next_reset_opens_another(
    meeting: Callable[[int], Any], tmp_path: Path
) -> None:
    """In the first of two steps one session breaks after its first turn; a second reward function scores it anyway."""
    with meeting(1) as served:
        factory = environment_factory(served.url, tasks=[TASK])
        rewards: list[list[float | None]] = []

        def turn(task: str, place: int, number: int) -> str:
            if place == 2 and number == 1 and not rewards:
                broken = trainer.environments[2]._episode._client
                factory.sessions.run(broken._socket.close())
            return solved(task, number, called)

        def half(completions: list[Any], **more: Any) -> list[float]:
            return [0.5] * len(completions)

        class Noting(Together):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, reward_funcs=[half], **more)

            def _calculate_rewards(self, *arguments: Any, **more: Any) -> Any:
                scores = super()._calculate_rewards(*arguments, **more)
                rewards.append([reward.get_reward() for reward in self.environments])
                scored = ~scores.isnan().all(dim=1)
                assert scored.tolist() == [reward is not None for reward in rewards[-1]]
                return scores

        trainer = build_trainer(Noting, factory, turn, tmp_path)
        trainer.train()
        assert rewards == [[1.0, 1.0, None, 1.0], [1.0] * 4]
        assert logs(trainer, "reward") == [1.5, 1.5]
        factory.close()


def test_run_ends_in_one_line_when_the_server_is_gone(
    mortal: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, url = mortal
    factory = environment_factory(url, tasks=[TASK])
    trainer = build_trainer(Scripted, factory, lambda task, place, number: "Done.", tmp_path)
    process.kill()
    process.wait()
    with pytest.raises(Exception, match="is the server running") as caught:
        trainer.train()
    assert "\n" not in str(caught.value)
    factory.close()
