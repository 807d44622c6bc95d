"""The agent that errs on purpose: what it does, what is found, and who sees it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import DATA

from etude.environments import agents
from etude.environments.agents.erring import Expected, script
from etude.environments.coding.session import CodingSession
from etude.environments.drill.families import FAMILIES
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import play
from etude.environments.tasks.task_paths import source_files
from etude.environments.tasks.task_set import TaskSet
from etude.generators.generate import generate
from etude.models import Episode, ErrorTurn, Observation, Task

DRILLS = DrillTasks()
CELLAR = DATA / "cellar"
Stumbled = tuple[Task, Episode, list[Observation]]


class Watched:
    """A session whose observations are kept."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.seen: list[Observation] = []

    async def reset(self, **arguments: Any) -> Observation:
        self.seen.append(await self.session.reset(**arguments))
        return self.seen[-1]

    async def step(self, action: Any) -> Observation:
        self.seen.append(await self.session.step(action))
        return self.seen[-1]


def stumble(task: Task, session: Any) -> tuple[Episode, list[Observation]]:
    async def run() -> tuple[Episode, list[Observation]]:
        watched = Watched(session)
        try:
            await play(task, agents.make("stumbler", task), watched)
            return session.episode(), watched.seen
        finally:
            await session.close()

    return asyncio.run(run())


def found(errors: list[ErrorTurn]) -> list[Expected]:
    """Return the annotated errors in the form of the script."""
    named = ("wasteful", "style")
    return [
        Expected(error.turn, error.kind, error.message.partition(":")[0] if error.kind in named else "")
        for error in errors
    ]


@pytest.fixture(scope="module")
def stumbled(tasks: TaskSet) -> Stumbled:
    task = next(iter(tasks))
    return task, *stumble(task, CodingSession(tasks))


@pytest.fixture(scope="module")
def shown(tasks: TaskSet) -> tuple[Episode, list[Observation]]:
    return stumble(next(iter(tasks)), CodingSession(tasks, annotate="observation"))


def test_one_mistake_of_every_kind_and_then_it_solves(stumbled: Stumbled) -> None:
    task, episode, _ = stumbled
    assert episode.reward is not None
    assert (episode.reward.value, episode.reward.valid, episode.end) == (1.0, True, "submit")
    assert found(episode.error_turns) == script(task)[1]


def test_the_kinds_are_all_that_an_agent_can_make(stumbled: Stumbled) -> None:
    from typing import get_args

    from etude.models import ErrorKind

    kinds = {mistake.kind for mistake in script(stumbled[0])[1]}
    assert set(get_args(ErrorKind)) - kinds == {"transport_error", "injected_fault", "budget"}


FITTING = {
    "tool_not_found": "read_file",
    "invalid_args": "path",
    "malformed_call": "JSON",
    "file_not_found": "{path}",
    "edit_failed": "{path}",
    "command_not_found": "python",
    "nonzero_exit": "no-such-revision",
    "traceback": "ModuleNotFoundError",
    "timeout": "tail",
    "false_claim": "mypy",
}


def hints_fit(task: Task, episode: Episode) -> None:
    assert [error.kind for error in episode.error_turns if not error.hints] == []
    for error in episode.error_turns:
        word = FITTING.get(error.kind, "").format(path=source_files(task)[0])
        assert word in error.hints[0].text, error


def check_that_no_observation_has_hints(episode: Episode, observed: list[Observation]) -> None:
    texts = [hint.text for error in episode.error_turns for hint in error.hints]
    assert texts
    for observation in observed:
        assert observation.annotations is None
        answer = observation.model_dump_json()
        assert [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] in answer] == []


def check_that_each_observation_has_its_hints(episode: Episode, observed: list[Observation]) -> None:
    by_turn = [[error for error in episode.error_turns if error.turn == turn] for turn in range(len(episode.turns))]
    # Whether the agent recovered is known later, so what is shown at the time says nothing of it.
    plain = [[(error.kind, error.hints) for error in observation.annotations or []] for observation in observed[1:]]
    assert plain == [[(error.kind, error.hints) for error in errors] for errors in by_turn]
    assert sum(len(errors) for errors in plain) == len(episode.error_turns)


def test_each_mistake_has_a_fitting_hint(stumbled: Stumbled) -> None:
    hints_fit(stumbled[0], stumbled[1])


def test_no_hint_is_in_any_observation(stumbled: Stumbled) -> None:
    check_that_no_observation_has_hints(*stumbled[1:])


def test_hints_are_in_the_observation_of_their_turn_when_annotate_is_observation(
    shown: tuple[Episode, list[Observation]],
) -> None:
    check_that_each_observation_has_its_hints(*shown)
    assert len(shown[0].error_turns) > 10


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["stub", "remove"])
def test_mistakes_are_annotated_on_a_generated_deletion(mode: str, tmp_path: Path) -> None:
    knobs = {"mode": mode, "min_lines": 2, "max_share": 0.9}
    assert generate([str(CELLAR)], generators=["fd_function"], count=1, seed=3, out=tmp_path, knobs=knobs).tasks == 1
    created = TaskSet.load(tmp_path)
    task = next(iter(created))
    episode, observed = stumble(task, CodingSession(created))
    assert episode.reward is not None
    assert (episode.reward.value, episode.reward.valid, episode.end) == (1.0, True, "submit")
    assert found(episode.error_turns) == script(task)[1]
    hints_fit(task, episode)
    check_that_no_observation_has_hints(episode, observed)
    check_that_each_observation_has_its_hints(*stumble(task, CodingSession(created, annotate="observation")))


@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize("family", FAMILIES.paths())
def test_mistakes_are_annotated_on_drills(family: str, level: int) -> None:
    """Check that a fault which the drill states is injected, not a mistake of the agent."""
    task = DRILLS.by_id(f"drill-{family}-3-l{level}")
    episode, observed = stumble(task, DrillSession(DRILLS))
    assert episode.reward is not None
    assert episode.reward.value == 1.0
    own_errors = [error for error in episode.error_turns if not error.injected]
    assert found(own_errors) == script(task)[1]
    assert len(own_errors) == 5
    stated = [error.turn for error in episode.error_turns if error.injected]
    assert stated == [fault.turn for fault in episode.injected]
    assert len(stated) == task.features.get("faults", 0)
    assert [error.kind for error in episode.error_turns if not error.hints] == []
    check_that_no_observation_has_hints(episode, observed)
    check_that_each_observation_has_its_hints(*stumble(task, DrillSession(DRILLS, annotate="observation")))


def test_playing_it_twice_gives_the_same(stumbled: Stumbled, shown: Any) -> None:
    turns = [[message.content for message in turn.messages] for turn in stumbled[1].turns]
    assert turns == [[message.content for message in turn.messages] for turn in shown[0].turns]
