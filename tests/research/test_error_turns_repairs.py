"""Experiment (C)'s world: repairs as graded tasks, and dialogues of them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from etude.environments.coding.prompt import prompt
from etude.environments.coding.session import CodingSession
from etude.environments.coding.tools import schemas
from etude.environments.running import Budget
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_set import TaskSet
from etude.hints.write.path_guesses import nearest_paths
from etude.models import Episode
from etude.research.error_turns.worlds import repair_dialogues, repairs
from etude.research.error_turns.worlds.repair_dialogues import EDITED, GAVE_UP, dialogues
from etude.research.error_turns.worlds.repairs import FOLDERS, FUNCTIONS, LISTED, MODULES, TOOLS, Repair, repair

T = TypeVar("T")
SEEDS = range(400)
DONE, UNDONE = {"summary": EDITED}, {"summary": GAVE_UP}
Call = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return repairs.snapshot()


def of_mutation(mutation: str) -> Repair:
    return next(found for seed in itertools.count() if (found := repair(seed)).mutation == mutation)


def wrong_folder(of: Repair) -> str:
    return next(folder for folder in FOLDERS if not of.path.startswith(f"{folder}/"))


def played(snapshot: Snapshot, of: Repair, *calls: Call) -> Episode:
    """Return the calls, each a turn, in the strongest sandbox that works here; three turns at most."""

    async def run() -> Episode:
        session = CodingSession(TaskSet([repairs.task(of, snapshot)]), budget=Budget(turns=3), tools=TOOLS)
        try:
            await session.reset(task_id=repairs.task_id(of.seed))
            for name, arguments in calls:
                await session.step({"tool_calls": [{"id": "call", "name": name, "arguments": arguments}]})
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


def worth(episode: Episode) -> float:
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value


# --- the maker ---------------------------------------------------------------------------------------------------


def test_a_seed_is_an_exercise() -> None:
    assert repair(7) == repair(7)
    assert len({repair(seed).statement for seed in SEEDS}) == len(SEEDS)


def test_statement_has_all_that_an_edit_needs_and_names_the_folder_only_in_the_list() -> None:
    for seed in SEEDS:
        of = repair(seed)
        head, _, listed = of.statement.partition("\nFiles:\n")
        assert of.modules[0].function in head and of.name in head and of.path not in head
        assert f"returns `{of.old}`, should return `{of.modules[0].returns}`" in head
        assert listed.splitlines() == list(of.listed) and of.path in of.listed
        assert len({path.partition("/")[0] for path in of.listed}) == 1, "one package"


def test_a_module_is_in_any_folder_and_anywhere_in_the_list() -> None:
    found = [repair(seed) for seed in range(4000)]
    folders = {(of.name, of.path.partition("/")[0]) for of in found if of.split == "train"}
    assert len(folders) == len(MODULES["train"]) * len(FOLDERS)
    places = Counter(of.listed.index(of.path) for of in found)
    assert min(places.values()) > 0.9 * len(found) / LISTED


def test_held_out_modules_and_functions_occur_in_no_task_that_is_trained_on() -> None:
    assert not set(MODULES["train"]) & set(MODULES["eval"])
    assert not set(FUNCTIONS["train"]) & set(FUNCTIONS["eval"])
    for seed in SEEDS:
        of = repair(seed)
        assert of.split == ("eval" if seed % 10 == 9 else "train")
        for module in of.modules:
            assert module.path.rpartition("/")[2].removesuffix(".py") in MODULES[of.split]
            assert {module.function, module.other} <= set(FUNCTIONS[of.split])


def test_wrong_expression_occurs_once_and_fails_the_tests() -> None:
    for seed in SEEDS:
        of = repair(seed)
        module, wrong, right = of.modules[0], of.files()[of.path].decode(), of.files(right=True)[of.path].decode()
        assert wrong.count(str(of.old)) == 1
        assert wrong.replace(str(of.old), str(module.returns)) == right
        assert of.old.values(module.parameters) != module.returns.values(module.parameters)


def test_nearest_path_to_one_in_a_wrong_folder_is_the_right_path() -> None:
    for seed in SEEDS:
        of = repair(seed)
        for folder in FOLDERS:
            path = of.edit(folder)["path"]
            if path != of.path:
                known = ["common.py", "tests/test_common.py", *of.listed]
                assert nearest_paths(path, known) == [of.path]


def test_task_without_a_snapshot_looks_the_same_to_the_agent(snapshot: Snapshot) -> None:
    alone, whole = repairs.task(repair(3)), repairs.task(repair(3), snapshot)
    assert alone.public() == whole.public()
    assert (alone.snapshot, whole.snapshot) == (None, snapshot.ref)


# --- graded ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutation", repairs.MUTATIONS)
def test_the_right_edit_solves(snapshot: Snapshot, mutation: str) -> None:
    of = of_mutation(mutation)
    episode = played(snapshot, of, ("edit_file", of.edit()), ("submit", DONE))
    assert (worth(episode), episode.error_turns) == (1.0, [])
    assert [change.path for change in episode.diff] == [of.path]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_played_in(snapshot: Snapshot, folder: str) -> None:
    of = next(each for each in map(repair, SEEDS) if each.path.startswith(f"{folder}/") and each.split == "eval")
    assert worth(played(snapshot, of, ("edit_file", of.edit()), ("submit", DONE))) == 1.0


def test_doing_nothing_solves_nothing(snapshot: Snapshot) -> None:
    episode = played(snapshot, repair(0), ("submit", UNDONE))
    assert (worth(episode), episode.error_turns) == (0.0, [])
    assert episode.reward is not None and episode.reward.components["pass_to_pass"] == 1.0


def test_an_edit_that_is_wrong_itself_solves_nothing(snapshot: Snapshot) -> None:
    of = of_mutation("operator")
    other = of.edit() | {
        "new": f"{of.old.left} {'+' if '+' not in (of.old.sign, of.modules[0].returns.sign) else '*'} 1"
    }
    episode = played(snapshot, of, ("edit_file", other), ("submit", DONE))
    assert worth(episode) == 0.0 and len(episode.diff) == 1


def test_a_wrong_folder_is_an_error_turn_whose_hint_names_the_right_path_alone(snapshot: Snapshot) -> None:
    of = repair(5)
    folder = wrong_folder(of)
    episode = played(snapshot, of, ("edit_file", of.edit(folder)), ("submit", UNDONE))
    (error,) = episode.error_turns
    assert (worth(episode), error.turn, error.kind, error.site) == (0.0, 0, "file_not_found", "erring")
    assert error.message == f"no such file: {folder}/{of.name}"
    assert [hint.text for hint in error.hints] == [
        f"There is no `{folder}/{of.name}`; the nearest path is {of.path}."
    ]  # fmt: skip


def test_an_edit_after_a_wrong_folder_still_solves_within_three_turns(snapshot: Snapshot) -> None:
    of = repair(5)
    wrong, right = ("edit_file", of.edit(wrong_folder(of))), ("edit_file", of.edit())
    episode = played(snapshot, of, wrong, right, ("submit", DONE))
    assert (worth(episode), episode.end) == (1.0, "submit")
    assert [(error.turn, error.recovered) for error in episode.error_turns] == [(0, True)]


def test_the_third_turn_is_the_last(snapshot: Snapshot) -> None:
    of = repair(5)
    wrong = ("edit_file", of.edit(wrong_folder(of)))
    assert played(snapshot, of, wrong, wrong, wrong).end == "budget"


# --- dialogues ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return list(dialogues(1500))


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def seed_of(row: dict[str, Any]) -> int:
    return int(row["task_id"].removeprefix("repair-"))


def first_edit(row: dict[str, Any]) -> dict[str, str]:
    turn = next(message for message in row["messages"] if message["role"] == "assistant")
    arguments: dict[str, str] = turn["tool_calls"][0]["function"]["arguments"]
    return arguments


def told(row: dict[str, Any]) -> str:
    """Return the path that the hint names, '' without one."""
    hints = [message["content"] for message in row["messages"] if message["role"] == "hint"]
    return hints[0].rpartition(" ")[2].removesuffix(".") if hints else ""


def share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def test_the_same_arguments_give_the_same_dialogues() -> None:
    assert json.dumps(list(dialogues(3, seed=4))) == json.dumps(list(dialogues(3, seed=4)))
    assert list(dialogues(3, seed=4)) != list(dialogues(3, seed=5))


def test_dialogue_equals_an_episode_of_the_environment(snapshot: Snapshot, rows: list[dict[str, Any]]) -> None:
    row = next(row for row in rows if len(row["messages"]) == 7 and not told(row))
    of = repair(seed_of(row))
    messages = [message for message in row["messages"] if message["role"] != "user"]
    calls = [message["tool_calls"][0]["function"] for message in messages[::2]]
    episode = played(snapshot, of, *((call["name"], call["arguments"]) for call in calls))
    assert row["messages"][0]["content"] == episode.prompt
    assert row["tools"] == episode.tools == schemas(TOOLS)
    assert [message["content"] for message in messages[1::2]] == [
        message.content for turn in episode.turns for message in turn.messages
    ]
    assert set(messages[1]) == {"role", "tool_call_id", "name", "content"}
    assert worth(episode) == 1.0


def test_hint_equals_that_of_the_environment(snapshot: Snapshot) -> None:
    of = repair(12)
    folder = wrong_folder(of)
    episode = played(snapshot, of, ("edit_file", of.edit(folder)))
    assert run(lambda: repair_dialogues.hint(of, folder)) == episode.error_turns[0].hints[0].text


def test_hint_can_name_another_folder_than_the_list() -> None:
    of = repair(12)
    one, other = [folder for folder in FOLDERS if not of.path.startswith(f"{folder}/")][:2]
    found = run(lambda: repair_dialogues.hint(of, one, other))
    assert found == f"There is no `{one}/{of.name}`; the nearest path is {other}/{of.name}."
    with pytest.raises(ValueError, match="there is no hint"):
        run(lambda: repair_dialogues.hint(of, one, one))


def test_share_of_right_guesses_without_a_hint_is_the_known_share(rows: list[dict[str, Any]]) -> None:
    plain = [row for row in rows if not told(row)]
    assert share([bool(told(row)) for row in rows]) == pytest.approx(0.5, abs=0.05)
    right = [first_edit(row)["path"] == repair(seed_of(row)).path for row in plain]
    assert share(right) == pytest.approx(0.25, abs=0.06)
    others = Counter(first_edit(row)["path"].partition("/")[0] for row in plain)
    assert min(others[folder] for folder in FOLDERS) > 0.6 * len(plain) / len(FOLDERS)
    always = dialogues(20, known=1.0, skill=0.0)
    assert all(first_edit(row)["path"] == repair(seed_of(row)).path for row in always)


def test_hint_is_followed_also_against_the_list(rows: list[dict[str, Any]]) -> None:
    hinted = [row for row in rows if told(row)]
    conflicts = [told(row) != repair(seed_of(row)).path for row in hinted]
    assert share(conflicts) == pytest.approx(0.5, abs=0.06)
    assert share([first_edit(row)["path"] == told(row) for row in hinted]) > 0.97


def test_share_of_followed_hints_is_the_skill() -> None:
    hinted = [row for row in dialogues(1000, skill=0.6) if told(row)]
    conflicting = [row for row in hinted if told(row) != repair(seed_of(row)).path]
    # A guess hits the folder of a conflicting hint by chance.
    by_chance = 0.75 / (len(FOLDERS) - 1)
    followed = [first_edit(row)["path"] == told(row) for row in conflicting]
    assert share(followed) == pytest.approx(0.6 + 0.4 * by_chance, abs=0.08)


def test_right_edit_follows_half_of_the_failed_ones(rows: list[dict[str, Any]]) -> None:
    failed = [row for row in rows if first_edit(row)["path"] != repair(seed_of(row)).path]
    ends = [row["messages"][-2]["tool_calls"][0]["function"] for row in failed]
    assert {end["name"] for end in ends} == {"submit"}
    assert share([end["arguments"] == DONE for end in ends]) == pytest.approx(0.5, abs=0.06)
    assert all(end["arguments"] in (DONE, UNDONE) for end in ends)


def test_dialogues_are_of_no_task_with_a_small_seed(rows: list[dict[str, Any]]) -> None:
    assert min(seed_of(row) for row in rows) >= 10**9
    assert all(row["messages"][0]["content"] == prompt(repairs.task(repair(seed_of(row))), TOOLS) for row in rows[:20])
