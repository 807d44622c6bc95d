"""Runs that the pictures of the viewer show: played drills, forks, marks of every kind, a training run, a long list."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.forks import ForkSettings, fork_episode
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import read_run
from etude.environments.runs.writer import FILE_NAME
from etude.models import FileChange, Finding, Grade, InjectedFault, Reward, TestFailure

STEPS = 40
"""Steps of the training run."""
RECORDED = 4
"""Recorded episodes of each step."""
TASKS = DrillTasks(["choose", "chain", "recover"], level=3)
LIMITS = ("kl_to_base", "hack_rate", "suspect_rate", "teacher_drift", "dollars", "hours", "dollars_per_hour")

Row = dict[str, Any]


def write_scenes(folder: Path, episodes: int) -> dict[str, list[Path]]:
    """Write the runs below ``folder`` and return the runs of each page; the long list has ``episodes``."""
    drills = folder / "drills"
    for agent in ("stumbler", "oracle", "noop"):
        asyncio.run(run_episodes(TASKS, agent, out=drills, limit=3))
    rows = [json.loads(line) for line in (drills / FILE_NAME).read_text(encoding="utf-8").splitlines()]
    asyncio.run(_forks(drills))
    coding = _written(folder / "coding", [marked(rows[1]), rows[4]])
    training = _training(folder / "training", rows)
    long = _written(folder / "long", _many(rows, episodes))
    (folder / "empty").mkdir()
    return {
        "main": [coding, drills, drills / "forks", training],
        "long": [long],
        "empty": [folder / "empty"],
        "odd": [_written(folder / "odd", _odd(marked(rows[0])))],
    }


async def _forks(run: Path) -> None:
    """Continue the first episode from turn 1 twice: the agent solves the task with the hint, never without."""
    stored = next(read_run(run))
    settings = ForkSettings("noisy:0,1", run / "forks", TASKS)
    for hint in ("Read the description of each tool before you call it.", ""):
        await fork_episode(stored, 1, hint, settings)


def _written(folder: Path, rows: Sequence[Row] | Iterator[Row]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE_NAME).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def marked(row: Mapping[str, Any]) -> Row:
    """Return an episode with findings, an injected fault, failed tests, a diff, tokens and the teacher's distance."""
    changed = deepcopy(dict(row))
    last = len(changed["turns"]) - 1
    evidence = str(next(iter(changed["turns"][last - 1]["action"]["tool_calls"][0]["arguments"].values())))
    reward = Reward(value=0.0, components={"fail_to_pass": 0.0, "pass_to_pass": 1.0}, fractions={"fail_to_pass": 0.5})
    cause = "AssertionError: assert 42 == [1, [2, 3]]\n  where 42 = parse('[1, [2, 3]]')"
    failure = TestFailure(test="tests/test_parser.py::test_nested_list", cause=cause, component="fail_to_pass")
    findings = [
        Finding(exploit_id="searches_hidden_tests", severity="confirmed", turn=last - 1, excerpt=evidence),
        Finding(exploit_id="hard_coded_answer", severity="suspect", path="src/parser.py", excerpt="return 42"),
    ]
    fault = InjectedFault(turn=last, call_index=0, call_id="c", call=last, kind="garbled", text="vowels are gone")
    content = base64.b64encode(b"def parse(text):\n    if text == '[1, [2, 3]]':\n        return 42\n").decode()
    for number, turn in enumerate(changed["turns"]):
        turn["seconds"] = 0.3 + 7 * (number % 4 == 1)
    return changed | {
        "agent": "openai:example-4b",
        "episode_id": f"marked-{row['episode_id']}",
        "usage": {"calls": last + 1, "prompt_tokens": 18_240, "completion_tokens": 1_236, "usd": 0.0213},
        "settings": {"model": "example-4b", "temperature": 1.0, "divergence": {"0": 0.4, "1": 1.2, "2": 0.7}},
        "findings": [one.model_dump(mode="json") for one in findings],
        "injected": [fault.model_dump(mode="json")],
        "reward": reward.model_dump(mode="json"),
        "grade": Grade(reward=reward, failures=[failure]).model_dump(mode="json"),
        "diff": [FileChange(path="src/parser.py", kind="file", content=content).model_dump(mode="json")],
    }


def _many(rows: Sequence[Row], number: int) -> Iterator[Row]:
    for place in range(number):
        row = rows[place % len(rows)]
        yield row | {"sample": place // len(rows), "agent": f"openai:model-{place % 7}", "episode_id": f"long-{place}"}


def _odd(row: Row) -> Iterator[Row]:
    """Yield an episode with a message of 1 MB, one of 500 turns, one with hostile text, and one without turns."""
    hostile = (
        "<script>alert(1)</script> \x1b[31mred\x1b[0m \u202ebackwards\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 "
        + "w" * 200
    )
    large, crowded, attack = deepcopy(row), deepcopy(row), deepcopy(row)
    large["turns"][0]["messages"][0]["content"] = "ok\n" + "0123456789\n" * 100_000
    crowded["turns"] = row["turns"][:3] + row["turns"][-1:] * 494 + row["turns"][-3:]
    attack["turns"][0]["action"]["text"] = attack["turns"][0]["messages"][0]["content"] = hostile
    attack |= {"agent": hostile, "task_id": hostile, "prompt": hostile}
    nothing = {"turns": [], "error_turns": [], "findings": [], "injected": [], "reward": None, "grade": None}
    for number, episode in enumerate((large, crowded, attack, row | nothing | {"end": "closed"})):
        yield episode | {"episode_id": f"odd-{number}"}


def _training(folder: Path, rows: Sequence[Row]) -> Path:
    """Write a training run whose numbers are made up, with recorded episodes of each step."""
    chance = random.Random(0)
    recipe = {
        "stage": "rl",
        "train": {"steps": 60, "prompts": 8, "group": 8, "micro": 4},
        "channels": {"rlvr": {"start": 1.0, "end": 1.0}, "replay": {"start": 0.1, "end": 0.1}},
        "safety": dict.fromkeys(LIMITS, 0.0) | {"kl_to_base": 0.5, "hack_rate": 0.2},
    }
    episodes = [
        rows[chance.randrange(len(rows))]
        | {"settings": {"step": step, "model": "example-4b"}, "sample": place, "episode_id": f"step-{step}-{place}"}
        for step in range(1, STEPS + 1)
        for place in range(RECORDED)
    ]
    _written(folder, episodes)
    (folder / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    metrics = [json.dumps(_metrics(step, chance)) + "\n" for step in range(1, STEPS + 1)]
    (folder / "metrics.jsonl").write_text("".join(metrics), encoding="utf-8")
    return folder


def _metrics(step: int, chance: random.Random) -> dict[str, float]:
    grown = 1 - math.exp(-step / 20)

    def around(value: float, spread: float) -> float:
        return max(0.0, value + chance.gauss(0, spread))

    return {
        "step": step,
        "reward": around(0.1 + 0.7 * grown, 0.05),
        "episodes/solved": min(1.0, around(0.08 + 0.7 * grown, 0.06)),
        "episodes/error_turn_rate": around(0.4 - 0.25 * grown, 0.03),
        "episodes/truncated": around(0.1, 0.03),
        "episodes/valid": 1.0,
        "completions/mean_length": around(900 + 300 * grown, 60),
        "completions/max_length": around(2000 + 400 * grown, 200),
        "groups/flat": min(1.0, around(0.4, 0.08)),
        "groups/unsolved": around(0.5 - 0.4 * grown, 0.05),
        "entropy": around(1.1 - 0.4 * grown, 0.03),
        "kl": around(0.1 * grown, 0.004),
        "replay/loss": around(0.6 - 0.2 * grown, 0.02),
        "replay/accuracy": min(1.0, around(0.5 + 0.4 * grown, 0.03)),
        "loss": around(0.4 - 0.2 * grown, 0.03),
        "grad_norm": around(0.9, 0.15),
        "learning_rate": 1e-5,
        "kl_good_turns": around(0.2 * grown, 0.01),
        "episodes/hack_rate": around(0.03, 0.02),
        "seconds/step": around(40, 4),
        "seconds/playing": around(25, 3),
    }
