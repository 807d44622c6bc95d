"""Experiment (B)'s third channel: the pairs that a base's own episodes and scripted teachers give, and arms with it."""

from __future__ import annotations

import argparse
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.reader import stored_episodes
from etude.research.error_turns import driver
from etude.research.error_turns.real_stack import (
    arm_trainer,
    base_models,
    command,
    runs,
    scripted_teachers,
    teacher_pairs,
)
from etude.research.error_turns.small_world import arms
from etude.research.error_turns.worlds import drill_world
from etude.research.error_turns.worlds.drill_world import DRILLS as WORLD
from etude.research.error_turns.worlds.world import LEARNED
from etude.trainers.replay.channel.loss import Replay
from etude.trainers.replay.pairs import Pair, read_pairs
from etude.trainers.rollouts.rollout import Sample
from etude.trainers.run.callbacks import METRICS, read_metrics

torch.set_num_threads(1)  # as the command does; two threads on busy cores wait for each other
ROOMY = replace(WORLD, max_ids=2000, max_turn_ids=200)
"""The tokenizer of a tiny base writes long."""
TASKS = DrillTasks([drill_world.FAMILY], level=drill_world.LEVEL)
KNOWS = WORLD.knows()
DRILLS = WORLD.played(12)
THING = re.compile(r"[A-Z]{3}-\d{5}")


def right(task_id: str) -> scripted_teachers.Call:
    return KNOWS.right(task_id, [])


def missing(task_id: str) -> str:
    """Return the name of a reading tool that does not exist."""
    return KNOWS.wrong(task_id, [], random.Random(task_id))[0]


def erring_then_giving_up(trainer: Any, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
    """Generate the turns of a base that calls a missing tool, and then submits that it does not know the answer."""
    by_thing = {THING.findall(TASKS.drill(task).statement)[0]: task for task in DRILLS}
    said = []
    for ids in prompts:
        text = trainer.processing_class.decode(ids)
        task = by_thing[THING.findall(text)[0]]
        failed = "<tool_response>" in text
        given = ("submit", {"answer": "unknown"}) if failed else (missing(task), right(task)[1])
        call = json.dumps({"name": given[0], "arguments": given[1]})
        turn = f"<tool_call>\n{call}\n</tool_call><|im_end|>"
        said.append(Sample(trainer.processing_class.encode(turn, add_special_tokens=False)))
    return said


@pytest.fixture(scope="module")
def file(base: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a base that a script plays, after an attempt that was cut short."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "strong.part").mkdir()
    (folder / "strong.part" / "episodes.jsonl").write_text("torn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arm_trainer.ArmTrainer, "_generate_turns", erring_then_giving_up)
        return teacher_pairs.pairs(ROOMY, base, url, folder, tasks=DRILLS)


def called(action: dict[str, Any]) -> scripted_teachers.Call:
    (call,) = action["tool_calls"]
    return call["name"], call["arguments"]


def outvoted(pair: Pair) -> list[str]:
    return [name for name, action in pair.teachers.items() if action and called(action) != called(pair.chosen)]


# --- the pairs ---------------------------------------------------------------------------------------------------


def test_right_call_is_preferred_to_the_action_of_the_base(file: Path) -> None:
    found = read_pairs(file)
    assert {pair.turn for pair in found} == {0, 1} and len(found) > len(DRILLS)
    for pair in found:
        assert called(pair.chosen) == right(pair.task_id)
        expected = (
            (missing(pair.task_id), right(pair.task_id)[1]) if pair.turn == 0 else ("submit", {"answer": "unknown"})
        )
        assert called(pair.rejected) == expected


def test_answers_are_executed_in_a_fork_of_the_episode_of_the_base(file: Path) -> None:
    for pair in read_pairs(file):
        assert pair.values["student"] == -1.0 and pair.how["student"] == "recorded"
        assert set(pair.teachers) == set(teacher_pairs.TEACHERS)
        for name, action in pair.teachers.items():
            assert action is not None and pair.how[name] in ("fork", "recorded")
            assert (pair.values[name] < 0) == (called(action) != right(pair.task_id))
        assert "fork" in pair.how.values()


def test_a_wrong_teacher_is_outvoted(file: Path) -> None:
    one_wrong = [pair for pair in read_pairs(file) if len(outvoted(pair)) == 1]
    assert one_wrong
    for pair in one_wrong:
        assert pair.share < 1 and pair.margin < pair.share, "the other answer had weight"


def test_the_folder_is_a_run_with_its_account(file: Path) -> None:
    stored = stored_episodes(file.parent)
    assert [one.episode.task_id for one in stored] == DRILLS and {one.agent for one in stored} == {"base"}
    assert all(one.episode.end == "submit" and len(one.episode.turns) == 2 for one in stored)
    assert json.loads((file.parent / "summary.json").read_text())["episodes"] == len(DRILLS)
    account = json.loads((file.parent / teacher_pairs.ACCOUNT).read_text())
    assert (account["episodes"], account["cut"], account["turns"]) == (len(DRILLS), 0, 2 * len(DRILLS))
    assert sum(account["pairs"].values()) == len(read_pairs(file)) and not account["not_executed"]
    assert [path.name for path in file.parent.parent.iterdir()] == ["strong"]


def test_existing_pairs_are_reused(file: Path, base: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher_pairs, "play_and_ask", lambda *given: pytest.fail("it was made"))
    assert teacher_pairs.pairs(ROOMY, base, url, file.parent.parent, tasks=DRILLS) == file


def test_pairs_are_reproducible(
    file: Path, base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", erring_then_giving_up)
    again = teacher_pairs.pairs(ROOMY, base, url, tmp_path, tasks=DRILLS)
    assert again.read_bytes() == file.read_bytes()


def test_pairs_of_another_base_are_refused(file: Path, base: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_models, "digest", lambda path: "other")
    with pytest.raises(driver.Refused, match="holds pairs of another base: remove it"):
        teacher_pairs.pairs(ROOMY, base, url, file.parent.parent)


def test_teachers_without_right_answers_are_refused(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", erring_then_giving_up)
    monkeypatch.setattr(teacher_pairs, "TEACHERS", {"one": 1e-9, "two": 1e-9})
    with pytest.raises(driver.Refused, match="no turn of the base strong became a pair"):
        teacher_pairs.pairs(ROOMY, base, url, tmp_path, tasks=DRILLS[:3])
    assert not (tmp_path / "strong").exists()


def test_episodes_that_were_cut_are_left_out(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def one_without_end(trainer: Any, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        """Generate turns that keep erring in the first drill, as if the base had read no result."""
        thing = THING.findall(TASKS.drill(DRILLS[0]).statement)[0]
        texts = [trainer.processing_class.decode(ids) for ids in prompts]
        asked = [text.partition("<tool_response>")[0] if thing in text else text for text in texts]
        encoded = [trainer.processing_class.encode(text, add_special_tokens=False) for text in asked]
        return erring_then_giving_up(trainer, encoded, rooms)

    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", one_without_end)
    found = teacher_pairs.pairs(ROOMY, base, url, tmp_path / "some", tasks=DRILLS[:4])
    assert [one.episode.task_id for one in stored_episodes(found.parent)] == DRILLS[1:4]
    account = json.loads((found.parent / teacher_pairs.ACCOUNT).read_text())
    assert (account["episodes"], account["cut"]) == (3, 1)
    with pytest.raises(driver.Refused, match="ended no episode within 2000 ids"):
        teacher_pairs.pairs(ROOMY, base, url, tmp_path / "none", tasks=DRILLS[:1])


def test_drills_of_pairs_are_neither_held_out_nor_trained_on() -> None:
    seeds = [int(name.split("-")[2]) for name in WORLD.played(200)]
    held = {int(name.split("-")[2]) for name in WORLD.tested()}
    assert len(set(seeds)) == 200 and not held & set(seeds) and max(seeds) < LEARNED
    assert {TASKS.by_id(name).split for name in WORLD.played(200)} == {"train"}


# --- the teachers ------------------------------------------------------------------------------------------------


def test_teacher_has_its_accuracy_and_repeats_its_answers() -> None:
    tasks = {str(number): DRILLS[number % len(DRILLS)] for number in range(2000)}
    for accuracy in teacher_pairs.TEACHERS.values():
        teacher = scripted_teachers.Scripted("one", accuracy, KNOWS, tasks)
        asked = [[{"role": "user", "content": prompt}] for prompt in tasks]
        said = [teacher(messages) for messages in asked]
        share = sum(call == right(task) for call, task in zip(said, tasks.values(), strict=True)) / len(said)
        assert share == pytest.approx(accuracy, abs=0.03)
        assert said == [teacher(messages) for messages in asked]


def test_after_the_last_call_the_answer_is_right_and_a_missing_tool_is_wrong() -> None:
    name, arguments = right(DRILLS[0])
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    made = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}]
    assert KNOWS.right(DRILLS[0], made) == ("submit", {"answer": TASKS.drill(DRILLS[0]).answer})
    names = {KNOWS.wrong(DRILLS[0], made, random.Random(seed))[0] for seed in range(20)}
    assert len(names) == 5 and not names & {tool.name for tool in TASKS.drill(DRILLS[0]).tools}


# --- arms that learn from them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["replay", "sparse_distill_replay"])
def test_a_run_learns_from_the_pairs(
    arm: str, file: Path, base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(WORLD, prompts=1, group=2, max_ids=1000, max_turn_ids=8)
    drawn: list[list[str]] = []
    counted: list[list[str]] = []
    scores, tokens_of = Replay._scores, arm_trainer.tokens_of

    def scored(self: Replay, model: Any, places: Any) -> Any:
        drawn.append([self.pairs[place].key for place in places])
        return scores(self, model, places)

    def counting(pairs: Any) -> int:
        counted.append([pair.key for pair in pairs])
        return tokens_of(pairs)

    monkeypatch.setattr(Replay, "_scores", scored)
    monkeypatch.setattr(arm_trainer, "tokens_of", counting)
    made = runs.build_run(small, arm_trainer.ARMS[arm], 1e-3, 7, base, url, tmp_path, 2, file).trainer
    before = [value.detach().clone() for value in made.model.parameters()]
    assert runs.finished(made, 2)
    made.close()
    rows = read_metrics(tmp_path / METRICS)
    assert len(rows) == 2 and all(row["replay/loss"] > 0 for row in rows)
    assert any(not torch.equal(old, new) for old, new in zip(before, made.model.parameters(), strict=True))
    assert ("distillation/loss" in rows[0]) == (arm != "replay")
    everything, *steps = counted
    assert steps == drawn and len(everything) == len(read_pairs(file)), "the tokens of what was read, and of no more"


def test_pairs_are_made_only_for_arms_that_learn_from_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(teacher_pairs, "pairs", lambda *given: asked.append(given) or tmp_path / "pairs.jsonl")
    places = {"strong": tmp_path / "strong", "weak": tmp_path / "weak"}
    others = [name for name, arm in arm_trainer.ARMS.items() if not arm.replay]
    assert command.pairs_of(WORLD, argparse.Namespace(arms=others, out=tmp_path), places, "url") == {} and not asked
    chosen = argparse.Namespace(arms=["distill", "replay", "sparse_distill_replay"], out=tmp_path)
    assert command.pairs_of(WORLD, chosen, places, "url") == {"strong": tmp_path / "pairs.jsonl"}
    assert asked == [(WORLD, tmp_path / "strong", "url", tmp_path / "pairs")]


def test_arms_of_the_mechanism_learn_from_no_pairs() -> None:
    assert not any(arm.replay for arm in arms.ARMS.values())
    replayed = {name for name, arm in arm_trainer.ARMS.items() if arm.replay}
    assert replayed == {"replay", "sparse_distill_replay", "sparse_replay", "sparse_chosen", "sparse_tenth_replay"}
