"""Every family: solvable as its solution says, not without doing the task, and shown without its secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from etude.environments.drill.families import FAMILIES
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import LEVELS, DrillTasks
from etude.environments.drill.words import READING
from etude.models import Episode

TASKS = DrillTasks()
FAMILY_NAMES = sorted(FAMILIES.paths())


def play(task_id: str, *actions: dict[str, Any]) -> Episode:
    async def run() -> Episode:
        session = DrillSession(TASKS)
        await session.reset(task_id=task_id)
        for action in actions:
            await session.step(action)
        return session.episode()

    return asyncio.run(run())


def solution(task_id: str) -> list[dict[str, Any]]:
    drill = TASKS.drill(task_id)
    return [{"tool": name, "arguments": arguments} for name, arguments in drill.solution()]


def submit(answer: str) -> dict[str, Any]:
    return {"tool": "submit", "arguments": {"answer": answer}}


SOLVED = {"value": 1.0, "answer": 1.0, "effects": 1.0, "no_confirmed_finding": 1.0}
SPOILED = {**SOLVED, "value": 0.0, "effects": 0.0}


def values(episode: Episode) -> dict[str, float]:
    assert episode.reward is not None and episode.reward.valid
    return {"value": episode.reward.value, **episode.reward.components}


def ids(family: str) -> list[str]:
    """Twenty drills of a family, of every level and both splits."""
    return [f"drill-{family}-{seed}-l{level}" for level in LEVELS for seed in (3, 19, 40, 59)]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_solution_scores_one_at_every_level(family: str) -> None:
    for task_id in ids(family):
        episode = play(task_id, *solution(task_id), submit(TASKS.drill(task_id).answer))
        assert values(episode) == SOLVED, task_id


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_nothing_done_scores_zero(family: str) -> None:
    for task_id in ids(family):
        assert values(play(task_id, {"tool": "submit"}))["value"] == 0.0, task_id


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_answer_is_the_last_result_and_is_shown_nowhere_before(family: str) -> None:
    for task_id in ids(family):
        episode = play(task_id, *solution(task_id))
        answer = TASKS.drill(task_id).answer
        assert answer.rpartition("; ")[2] in episode.turns[-1].messages[0].content, task_id
        public = TASKS.by_id(task_id).public().model_dump_json()
        before = [message.content for turn in episode.turns[:-1] for message in turn.messages]
        assert answer not in "\n".join([episode.prompt, str(episode.tools), public, *before]), task_id


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_secret_changes_every_answer(family: str) -> None:
    other = DrillTasks(secret="another")
    for task_id in ids(family):
        assert other.drill(task_id).answer != TASKS.drill(task_id).answer, task_id


def test_choose_punishes_a_tool_that_changes_things() -> None:
    for task_id in ids("choose"):
        drill = TASKS.drill(task_id)
        (name, arguments) = drill.solution()[0]
        harmful = next(tool for tool in drill.tools if tool.name.startswith(("delete_", "reset_", "archive_")))
        episode = play(
            task_id, {"tool": harmful.name, "arguments": arguments}, *solution(task_id), submit(drill.answer)
        )
        assert values(episode) == SPOILED, task_id


def test_choose_has_one_right_tool_among_look_alikes() -> None:
    for task_id in ids("choose"):
        drill = TASKS.drill(task_id)
        right, arguments = drill.solution()[0]
        others = [
            tool for tool in drill.tools if tool.name != right and list(tool.parameters["required"]) == [*arguments]
        ]
        answers = [play(task_id, {"tool": tool.name, "arguments": arguments}).turns[0].messages for tool in others]
        assert others and drill.answer not in str(answers), task_id


def test_choose_uses_synonyms_from_level_2_on() -> None:
    noun = TASKS.drill("drill-choose-3-l1").statement.split(" of the ")[1].split()[0]
    assert noun in TASKS.drill("drill-choose-3-l1").solution()[0][0]
    statement, name = TASKS.drill("drill-choose-3-l2").statement, TASKS.drill("drill-choose-3-l2").solution()[0][0]
    assert statement.split(" of the ")[1].split()[0] not in name


@pytest.mark.parametrize("level", LEVELS)
def test_verbs_differ_from_drill_to_drill_and_each_value_has_one(level: int) -> None:
    observed = set()
    for seed in range(40):
        calls = TASKS.drill(f"drill-verbs-{seed}-l{level}").solution()
        names = [tool.name for tool in TASKS.drill(f"drill-verbs-{seed}-l{level}").tools]
        assert len(calls) == level
        for name, _ in calls:
            verb = next(item for item in READING if name.endswith(f"_{item}"))
            others = [name.removesuffix(verb) + item for item in READING if item != verb]
            assert not set(others) & set(names)
            observed.add(verb)
    assert observed == set(READING)


def test_verbs_punishes_a_tool_that_changes_things() -> None:
    task_id = "drill-verbs-3-l1"
    ((name, arguments),) = TASKS.drill(task_id).solution()
    thing = name.removesuffix(next(f"_{item}" for item in READING if name.endswith(f"_{item}")))
    changes = [tool.name for tool in TASKS.drill(task_id).tools if tool.name.startswith(thing) and tool.name != name]
    answer = TASKS.drill(task_id).answer
    assert len(changes) == 1
    assert values(play(task_id, *solution(task_id), submit(answer)))["value"] == 1.0
    spoilt = play(task_id, {"tool": changes[0], "arguments": arguments}, *solution(task_id), submit(answer))
    assert values(spoilt)["value"] == 0.0


def test_schema_wants_every_field_right_and_one_record() -> None:
    task_id = "drill-schema-3-l4"
    name, expected = TASKS.drill(task_id).solution()[0]
    answer = TASKS.drill(task_id).answer
    wrong = {
        **expected,
        "items": [{**expected["items"][0], "quantity": expected["items"][0]["quantity"] + 1}, *expected["items"][1:]],
    }
    once = play(task_id, {"tool": name, "arguments": wrong})
    assert "receipt " in once.turns[0].messages[0].content and answer not in once.turns[0].messages[0].content
    twice = play(task_id, {"tool": name, "arguments": wrong}, {"tool": name, "arguments": expected}, submit(answer))
    assert values(twice) == SPOILED


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda items: items[0].update(quantity="two"), "items[0].quantity"),
        (lambda items: items[1].pop("sku"), "items[1]"),
        (lambda items: items[1]["options"].update(colour="mauve"), "items[1].options.colour"),
        (lambda items: items[0].update(note=1), "items[0]"),
    ],
)
def test_schema_errors_name_the_place(change: Any, place: str) -> None:
    import copy

    name, expected = TASKS.drill("drill-schema-3-l4").solution()[0]
    broken = copy.deepcopy(expected)
    change(broken["items"])
    content = play("drill-schema-3-l4", {"tool": name, "arguments": broken}).turns[0].messages[0].content
    assert content.startswith(f"error invalid_args: {name}") and place in content


def test_chain_needs_each_link() -> None:
    task_id = next(f"drill-chain-{seed}-l3" for seed in range(99) if "links" not in f"{seed}" and _is_records(seed))
    drill = TASKS.drill(task_id)
    steps = drill.solution()
    skipped = play(task_id, {"tool": steps[-1][0], "arguments": steps[0][1]})
    assert skipped.turns[0].messages[0].content.startswith("error invalid_args: ")
    assert len(steps) == 4


def _is_records(seed: int) -> bool:
    return "distractors" in TASKS.drill(f"drill-chain-{seed}-l3").features


def test_chain_copies_are_compared_whole() -> None:
    task_id = next(f"drill-chain-{seed}-l3" for seed in range(99) if TASKS.drill(f"drill-chain-{seed}-l3").effects)
    drill = TASKS.drill(task_id)
    read, (write, arguments) = drill.solution()
    half = {**arguments, "content": arguments["content"][:5]}
    actions = [{"tool": read[0], "arguments": read[1]}, {"tool": write, "arguments": half}]
    assert values(play(task_id, *actions, submit(drill.answer)))["effects"] == 0.0
    again = {"tool": write, "arguments": {**arguments, "path": f"{drill.workdir}/{arguments['path']}"}}
    assert values(play(task_id, *actions, again, submit(drill.answer)))["value"] == 1.0


@pytest.mark.parametrize("level", LEVELS)
def test_recover_states_each_fault_once_and_marks_it(level: int) -> None:
    task_id = f"drill-recover-7-l{level}"
    episode = play(task_id, *solution(task_id), submit(TASKS.drill(task_id).answer))
    assert len(episode.injected) == (level + 1) // 2
    assert [(error.injected, error.site, error.recovered) for error in episode.error_turns] == [
        (True, "recovery", True) for _ in episode.injected
    ]
    assert [error.call_id for error in episode.error_turns] == [fault.call_id for fault in episode.injected]


def test_recover_counts_an_ignored_fault_as_the_agents_error() -> None:
    task_id = "drill-recover-7-l1"
    first = solution(task_id)[0]
    episode = play(task_id, first, first, submit("?"))
    errors = [error for error in episode.error_turns if error.call_index is not None and error.tool == first["tool"]]
    assert [(error.turn, error.injected, error.site) for error in errors][0] == (0, True, "recovery")
    assert (1, False) in [(error.turn, error.injected) for error in errors]
    assert not any(error.recovered for error in errors)


def test_stop_spoils_one_load_too_many_and_one_too_few() -> None:
    for task_id in ids("stop"):
        steps = solution(task_id)
        load, close = {"tool": "load_next", "arguments": {}}, {"tool": "close_truck", "arguments": {}}
        for loads in {max(0, len(steps) - 3), len(steps) - 1} - {len(steps) - 2}:
            episode = play(task_id, *[load] * loads, close)
            assert TASKS.drill(task_id).answer not in episode.turns[-1].messages[0].content, task_id


def test_stop_needs_no_load_in_some_drills() -> None:
    counts = {len(TASKS.drill(f"drill-stop-{seed}-l2").solution()) - 2 for seed in range(60)}
    assert counts == {0, 1, 2, 3, 4}
