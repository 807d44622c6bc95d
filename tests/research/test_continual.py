"""Study of forgetting: what is demonstrated, its families of drills, SFT, and tables that are those of the rows."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_policy import base
from transformers import AutoTokenizer

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import default_drills
from etude.environments.drill.words import READING
from etude.models import Reward
from etude.research.continual import prior, study
from etude.research.continual.arms import demonstration, demonstrations, sft
from etude.research.continual.demonstrated import Demonstrated, Local, demonstration_text, due_call
from etude.research.effort.base import START as BASE
from etude.research.effort.base import TEMPLATE
from etude.research.effort.study import read_rows
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout
from etude.trainers.tiny_models.dialogues import CALL

TASK = "drill-recover-12-l1"
VERBS_TASK = "drill-verbs-12-l1"
SOLUTION = default_drills().drill(TASK).solution()


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "text": "", "tool_calls": [{"name": name, "arguments": arguments}]}


def test_due_call_is_the_first_one_that_was_not_made() -> None:
    assert due_call(TASK, []) == SOLUTION[0]
    assert due_call(TASK, [SOLUTION[0], ("nonsense", {})]) == SOLUTION[1]
    assert due_call(TASK, SOLUTION) is None


def test_demonstrations_are_of_the_call_that_is_due() -> None:
    """A wrong call, or a malformed one, leaves the call due; after it no demonstration is left."""
    [right] = default_drills().drill(VERBS_TASK).solution()
    messages = [call("other", {}), call("broken", "{"), call(*right), call("submit", {"answer": "x"})]
    rollout = Rollout(VERBS_TASK, "e", [], 0, [], [], Reward(value=0.0), "submit", messages=messages)
    errors = demonstrations(rollout)
    assert [error.turn for error in errors] == [0, 1, 2]
    assert {error.hints[0].text for error in errors} == {demonstration_text(VERBS_TASK, right)}


def test_demonstration_text_is_a_hint_that_the_base_has_read() -> None:
    """The base of the demo has read the environment's own hint, which follows a call of a tool that is missing.

    If the missing tool has no name like the right one, that hint is longer or names no tool.
    """

    async def hint(task: str, name: str, arguments: Any) -> str:
        session = DrillSession(default_drills())
        await session.reset(task_id=task)
        await session.step({"text": "", "tool_calls": [{"name": name, "arguments": arguments}]})
        return session.state().error_turns[0].hints[0].text

    complete = 0
    for task in study.held_out_of("A")[:12]:
        [right] = default_drills().drill(task).solution()
        text = demonstration_text(task, right)
        named = text.partition("There is no tool '")[2].partition("'")[0]
        own = asyncio.run(hint(task, named, right[1]))
        complete += own == text
        assert text == f"{own.partition(';')[0].removesuffix('.')}; use {right[0]}."
    assert complete >= 3


def test_demonstrated_chat_reads_the_demonstration_and_keeps_it_out_of_the_episode() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    [right] = default_drills().drill(VERBS_TASK).solution()
    seen: list[str] = []

    async def sampler(ids: Sequence[int], room: int) -> Sample:
        seen.append(tokenizer.decode(ids))
        name, arguments = right if len(seen) == 1 else ("submit", {"answer": "x"})
        text = CALL.format(json.dumps({"name": name, "arguments": arguments}))
        return Sample(tokenizer.encode(text + tokenizer.eos_token, add_special_tokens=False))

    chat = Demonstrated(TemplateChat(tokenizer, sampler, arguments=TEMPLATE), VERBS_TASK)
    played = asyncio.run(rollout({"task_id": VERBS_TASK}, chat, Local()))
    demonstration = demonstration_text(VERBS_TASK, right)
    assert [demonstration in text for text in seen] == [True, False]
    assert demonstration not in tokenizer.decode(played.ids)
    assert [turn["tool_calls"][0]["name"] for turn in played.messages if turn["role"] == "assistant"] == [
        right[0],
        "submit",
    ]


def test_families_share_no_drill_and_learn_from_none_that_is_held_out() -> None:
    for family, verb in study.VERBS.items():
        held, learned = study.held_out_of(family), study.learned_of(family, 1, 16)
        assert (len(held), len(learned)) == (study.HELD, 16)
        assert not set(held) & set(learned)
        assert all(default_drills().drill(task).solution()[0][0].endswith(f"_{verb}") for task in [*held, *learned])
    assert study.learned_of("A", 1, 16) != study.learned_of("A", 2, 16)


def row(arm: str, seed: int, a: float, b: float) -> dict[str, Any]:
    cells = {family: {"solved": value, "first_right": value / 2} for family, value in (("A", a), ("B", b))}
    return {"arm": arm, "seed": seed, "sets": cells, "taught": cells}


def test_tables_compare_runs_of_the_same_seed() -> None:
    rows = [row("base", 0, 0.5, 0.5)]
    for seed in (2, 1):
        lower = 0.1 * seed
        rows += [row("A", seed, 0.9, 0.4), row("sft", seed, 0.5 - lower, 0.9)]
        rows += [row("grpo", seed, 0.8 - lower, 0.6), row("sdft", seed, 0.7 - lower, 0.9)]
    lines = study.tables(rows)
    assert "| sft | 0.35 [-0.29, 0.99] | 0.90 [0.90, 0.90] | 0.55 [-0.09, 1.19] | 0.50 [0.50, 0.50] |" in lines
    assert "| C1: A solved, sdft minus sft | 0.20 | [0.20, 0.20] | above 0 | supported |" in lines
    assert "| C4: B first_right, sdft minus grpo | 0.15 | [0.15, 0.15] | above 0 | supported |" in lines


def test_old_drills_have_every_verb_but_the_new_one() -> None:
    sets = prior.sets()
    verbs = {task: default_drills().drill(task).solution()[0][0] for task in [*sets["old"], *sets["new"]]}
    assert {len(tasks) for tasks in sets.values()} == {study.HELD}
    assert all(verbs[task].endswith("_get") for task in sets["new"])
    endings = {verb for task in sets["old"] for verb in READING if verbs[task].endswith(f"_{verb}")}
    assert endings == set(READING) - {"get"}


@pytest.mark.parametrize("script", ["study", "prior"])
def test_tables_are_those_of_the_rows(root: Path, script: str) -> None:
    folder = root / "research" / "continual"
    command = [sys.executable, str(folder / f"{script}.py"), "--out", str(folder), "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (folder / "RESULTS.md").read_text()
    tables = [line for line in printed.splitlines() if line]
    assert len(tables) >= 20
    assert all(line in page for line in tables)


@pytest.mark.parametrize(("name", "arms"), [("rows", ("A", *study.ARMS)), ("prior", study.ARMS)])
def test_counted_runs_are_those_of_the_registrations(root: Path, name: str, arms: tuple[str, ...]) -> None:
    rows = read_rows(root / "research" / "continual" / f"{name}.jsonl")
    made = [(row["arm"], row["seed"]) for row in rows]
    assert sorted(made) == sorted([("base", 0), *((arm, seed) for arm in arms for seed in (1, 2, 3))])
    assert all(cell["episodes"] == study.HELD for row in rows for cell in row["sets"].values())


def test_demonstration_solves_its_task() -> None:
    row = asyncio.run(demonstration(TASK))

    async def replay() -> float:
        session = DrillSession(default_drills())
        await session.reset(task_id=TASK)
        for message in row["messages"]:
            if message["role"] == "assistant":
                await session.step({"text": "", "tool_calls": message["tool_calls"]})
        reward = session.state().reward
        assert reward is not None
        return reward.value

    assert asyncio.run(replay()) == 1.0


def test_sft_lowers_the_loss_of_its_demonstrations(tmp_path: Path) -> None:
    losses = sft(base(tmp_path / "base"), tmp_path / "out", [TASK] * 6, rate=3e-3, steps=6)
    assert losses[-1] < losses[0] - 0.5
    assert (tmp_path / "out" / "config.json").is_file()
