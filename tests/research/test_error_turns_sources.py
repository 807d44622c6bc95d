"""The second question: sources of hints, how far each moves a base, and whether that foretells what is learned."""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from etude.models import ErrorTurn, Hint, Reward
from etude.research.error_turns import driver, sources
from etude.research.error_turns.hints import hint_sources, source_gaps
from etude.research.error_turns.hints.source_gaps import Gap
from etude.research.error_turns.real_stack import arm_trainer
from etude.research.error_turns.real_stack.scripted_teachers import Call
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.repair_world import REPAIRS
from etude.trainers.rollouts.rollout import Rollout, Sample, Span

TASK = DRILLS.played(1)[0]
RIGHT, ARGUMENTS = DRILLS.knows().right(TASK, [])
WRONG = DRILLS.knows().wrong(TASK, [], random.Random(0))[0]


def rollout(*names: str, solved: bool = False, errors: tuple[int, ...] = (), task: str = TASK) -> Rollout:
    """Return a call each turn; those of ``errors`` erred."""
    said = [{"role": "assistant", "tool_calls": [{"name": name, "arguments": ARGUMENTS}]} for name in names]
    found = [
        ErrorTurn(turn=turn, kind="tool_not_found", tool=names[turn], message="no", hints=[Hint(text="Reminder.")])
        for turn in errors
    ]
    return Rollout(task, "e", [], 0, [], [], Reward(value=float(solved)), "submit", False, found, messages=said)


def told(source: str, of: Rollout, *batch: Rollout) -> str | None:
    return hint_sources.SOURCES[source](of.error_turns[0], of, [of, *batch], DRILLS)


# --- what a source says ------------------------------------------------------------------------------------------


def test_template_and_raw_hints_depend_on_the_error_alone() -> None:
    one = rollout(WRONG, errors=(0,))
    assert (told("template", one), told("raw", one)) == ("Reminder.", "no")


def test_introspection_is_the_next_call_of_the_policy_right_or_wrong() -> None:
    assert told("introspection", rollout(WRONG, RIGHT, errors=(0,))) == f"There is no tool '{WRONG}'; use {RIGHT}."
    assert told("introspection", rollout(WRONG, WRONG, errors=(0, 1))) == f"There is no tool '{WRONG}'; use {WRONG}."
    assert told("introspection", rollout(WRONG, "submit", RIGHT, errors=(0,))) is None, "it gave up"
    assert told("introspection", rollout(WRONG, errors=(0,))) is None


def test_sibling_is_a_solved_rollout_of_the_same_task_without_its_erring_turns() -> None:
    one = rollout(WRONG, "submit", errors=(0,))
    other = rollout("car_owner_get", RIGHT, "submit", solved=True, errors=(0,))
    assert told("sibling", one, other) == f"There is no tool '{WRONG}'; use {RIGHT}."
    assert told("sibling", one, replace(other, reward=Reward(value=0.0))) is None
    assert told("sibling", one, replace(other, task_id="another")) is None


def test_retold_hint_of_a_repair_is_that_of_the_environment() -> None:
    task = REPAIRS.played(1)[0]
    wrong, right = (call[1] for call in (REPAIRS.knows().wrong(task, [], random.Random(0)), _right(task)))
    message = f"no such file: {wrong['path']}"
    error = ErrorTurn(turn=0, kind="file_not_found", tool="edit_file", message=message)
    said = f"There is no `{wrong['path']}`; the nearest path is {right['path']}."
    assert REPAIRS.retold(error, {"name": "edit_file", "arguments": right}) == said
    assert REPAIRS.retold(error, {"name": "submit", "arguments": {}}) is None
    assert REPAIRS.retold(error, {"name": "edit_file", "arguments": "{"}) is None
    assert (
        REPAIRS.retold(
            error.model_copy(update={"message": "app is a folder; list_files shows what is in it"}),
            {"name": "edit_file", "arguments": right},
        )
        is None
    )


def _right(task: str) -> Call:
    return REPAIRS.knows().right(task, [])


def test_call_without_a_name_gives_no_hint() -> None:
    one = rollout(WRONG, "submit", errors=(0,))
    one.messages[1]["tool_calls"] = [{"name": None, "arguments": {}}, {"name": ["a"], "arguments": "{"}]
    assert told("introspection", one) is None


def test_an_arm_has_its_source_at_the_same_turns() -> None:
    assert {arm_trainer.ARMS[arm].hint for arm in ("introspection", "sibling", "raw_error")} <= set(
        hint_sources.SOURCES
    )
    assert set(sources.ARMS.values()) <= set(arm_trainer.ARMS)
    none = arm_trainer.hinted(rollout(WRONG, errors=(0,)).error_turns[0], None)
    assert none.hints == []


# --- how far it moves --------------------------------------------------------------------------------------------


def says(*plan: str) -> Any:
    """Return a policy that plays these words, one a turn: right, wrong or submit."""

    def turns(trainer: Any, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        def call(ids: list[int]) -> dict[str, Any]:
            word = plan[trainer.processing_class.decode(ids).count("<tool_response>")]
            name = {"right": RIGHT, "wrong": WRONG}.get(word, word)
            return {"name": name, "arguments": {"answer": "unknown"} if word == "submit" else ARGUMENTS}

        said = [f"<tool_call>\n{json.dumps(call(ids))}\n</tool_call><|im_end|>" for ids in prompts]
        return [Sample(trainer.processing_class.encode(text, add_special_tokens=False)) for text in said]

    return turns


def test_every_source_is_measured_at_every_error_turn(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", says("wrong", "right", "submit"))
    world = replace(DRILLS, max_ids=2000, max_turn_ids=200)
    made = sources.runs.build_run(world, arm_trainer.ARMS["distill"], 1e-9, 0, base, url, tmp_path / "run", 1)
    found = source_gaps.gaps(made.trainer, [TASK], 2)
    made.trainer.close()
    assert [(gap.place, gap.turn, gap.kind) for gap in found] == [
        (place, 0, "tool_not_found") for place in (0, 1) for _ in range(5)
    ]
    by_source = {gap.source: gap for gap in found[:5]}
    assert {name: gap.told for name, gap in by_source.items()} == {
        "template": True, "raw": True, "introspection": True, "sibling": False, "wrong": False,
    }, "nothing was solved, and there is no other task"  # fmt: skip
    assert (by_source["sibling"].divergence, by_source["sibling"].right) == (0.0, 0.0)
    assert by_source["template"].divergence > 0 and by_source["template"].right != 0


def test_right_turn_is_the_next_call_of_the_solution(base: Path, url: str, tmp_path: Path) -> None:
    made = sources.runs.build_run(DRILLS, arm_trainer.ARMS["distill"], 1e-9, 0, base, url, tmp_path / "run", 1)
    prompt = made.trainer._chat.prompt([{"role": "user", "content": "?"}], [])
    spoken = Span(prompt.generation, len(prompt.ids), len(prompt.ids))
    one = replace(rollout(WRONG), ids=prompt.ids, turns=[spoken])
    ids = source_gaps._Measure(made.trainer)._right(one, 0)
    made.trainer.close()
    assert made.trainer._chat.action(ids)["tool_calls"] == [{"name": RIGHT, "arguments": ARGUMENTS}]


def gap(source: str, right: float, *, task: str = "a", place: int = 0, given: bool = True) -> Gap:
    return Gap(task, place, 0, "tool_not_found", source, given, right, right, right, {"kind": "tool_not_found"})


def test_the_learned_choice_is_what_gained_most_on_the_other_half() -> None:
    found = []
    for place, task in enumerate(("a", "b", "c", "d")):
        given = {"template": 1.0, "raw": 2.0, "introspection": 0.0, "sibling": 5.0, "wrong": 9.0}
        found += [
            gap(name, right, task=task, place=place, given=task != "d" or name != "sibling")
            for name, right in given.items()
        ]
    chosen = {each.task: each for each in source_gaps.learned(found)}
    assert {each.source for each in chosen.values()} == {"learned"}
    assert {task: each.right for task, each in chosen.items()} == {"a": 5.0, "b": 5.0, "c": 5.0, "d": 2.0}


def test_means_are_over_all_turns_with_an_interval_over_tasks() -> None:
    found = [gap("raw", value, task=task) for task, value in (("a", 1.0), ("a", 1.0), ("b", 4.0))]
    mean, low, high = sources._mean(found, "right")
    assert (mean, low, high) == (2.0, 1.0, 4.0)


# --- what it foretells -------------------------------------------------------------------------------------------


def row(arm: str, last: float, seed: int) -> dict[str, Any]:
    return {"arm": arm, "seed": seed, "errors": [0.6, last], "episodes": [0, 32]}


def test_ranks_are_correlated_over_sources() -> None:
    one = torch.tensor([1.0, 2.0, 3.0])
    assert sources.spearman(one, torch.tensor([[5.0, 6.0, 9.0], [9.0, 6.0, 5.0]])).tolist() == pytest.approx(
        [1.0, -1.0]
    )


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    """Also where only the rounding of the rows tells them apart."""
    gains = torch.tensor([[3.0, 1.5, 2.0, 1.50000003]])
    above, below = (sources.spearman(torch.tensor(one), gains) for one in ([4.0, 2.0, 3.0, 1.0], [4.0, 1.0, 3.0, 2.0]))
    assert above.tolist() == below.tolist() == pytest.approx([4.5 / (5 * 4.5) ** 0.5])


def test_every_turn_is_in_the_last_table_also_those_of_rare_kinds() -> None:
    many = [replace(gap(name, 1.0), place=place) for place in range(10) for name in sources._sources()[:-1]]
    rare = [replace(gap(name, -10.0), kind="malformed_call", place=10) for name in sources._sources()[:-1]]
    found = sources.table([*many, *rare])
    assert list(found) == ["tool_not_found", "every kind"]
    assert found["tool_not_found"]["template"]["right"][0] == 1.0
    assert (found["every kind"]["template"]["turns"], found["every kind"]["template"]["right"][0]) == (11, 0.0)


def test_gain_of_the_right_turn_predicts_what_is_learned_and_divergence_does_not() -> None:
    moved = {
        "template": {"right": (3.0, 0, 0), "failed": (2.0, 0, 0), "divergence": (0.1, 0, 0)},
        "raw": {"right": (2.0, 0, 0), "failed": (1.0, 0, 0), "divergence": (0.2, 0, 0)},
        "wrong": {"right": (-3.0, 0, 0), "failed": (3.0, 0, 0), "divergence": (0.3, 0, 0)},
    }
    last = {"distill": 0.1, "raw_error": 0.2, "wrong_hint": 0.8, "null_hint": 0.6}
    rows = [row(arm, value + seed / 100, seed) for arm, value in last.items() for seed in (1, 2, 3)]
    found = sources.foretold(moved, [*rows, row("distill", 0.9, 1000)])
    assert set(found["gains"]) == {"template", "raw", "wrong", "nothing"}
    assert found["gains"]["template"][0] == pytest.approx((0.6 - 0.12) / 2)
    assert found["correlation"]["right"] == pytest.approx((1.0, 1.0, 1.0))
    assert found["correlation"]["divergence"][0] < 0


# --- the command -------------------------------------------------------------------------------------------------


def test_missing_gaps_and_missing_bases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(driver.Refused, match="holds no gaps yet"):
        sources.report(argparse.Namespace(out=tmp_path, runs=[]))
    with pytest.raises(driver.Refused, match="a rank takes three or more"):
        sources.foretold({}, [row("distill", 0.1, 1)])
    with pytest.raises(driver.Refused, match="no kind of error has 10 turns"):
        sources.table([gap("wrong", 1.0)])
    with pytest.raises(driver.Refused, match="holds no strong"):
        sources.measure(argparse.Namespace(out=tmp_path, bases=tmp_path, world="drills", tasks=1))


def test_gaps_are_stored_and_reported(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arm_trainer.ArmTrainer, "_generate_turns", says("wrong", "right", "submit"))
    monkeypatch.setitem(sources.WORLDS, "drills", replace(DRILLS, max_ids=2000, max_turn_ids=200))
    options = argparse.Namespace(out=tmp_path, bases=base.parent, world="drills", tasks=2, runs=[])
    found = sources.measure(options)
    assert sources.read(tmp_path / "gaps-drills.jsonl") == found
    sources.report(options)
    assert "tool_not_found: 24 turns" in capsys.readouterr().out, "the one's right tool is none of the other's"
    assert set(json.loads((tmp_path / "sources.json").read_text())["drills"]) == {"tool_not_found"}
