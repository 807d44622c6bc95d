"""Tests of verifiers' v0, for trainers that call ``load_environment``: the same tasks, rewards and error turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.slow

V0 = """
import asyncio, json, sys
import verifiers as vf
from verifiers.types import ClientConfig
server, policy, turns, examples, split = sys.argv[1:]
environment = vf.load_environment("etude-verifiers", url=server, split=split or None, max_turns=int(turns))
client = ClientConfig(api_base_url=policy, api_key_var="NO_KEY")
columns = ["hints", "error_turns"]
options = dict(num_examples=int(examples), rollouts_per_example=2, state_columns=columns)
rows = asyncio.run(environment.evaluate(client, "scripted", **options))["outputs"]
print("\\n" + json.dumps([{key: row[key] for key in ("reward", "error", "info", *columns)} for row in rows]))
"""


def played(bench: Any, turns: int) -> list[dict[str, Any]]:
    """Return the outputs of two rollouts of each task."""
    split = "eval" if bench.ground.options else ""
    output = bench.run(
        [bench.bin / "python", "-c", V0, bench.ground.url, bench.policy.url, str(turns), str(examples(bench)), split]
    )
    return list(json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("[{"))))


def examples(bench: Any) -> int:
    return len(bench.ground.task_ids)


@pytest.mark.parametrize("bench", ["0.3.1"], indirect=True)
def test_v0_plays_groups_of_the_same_tasks(bench: Any) -> None:
    rows = played(bench, 20)
    assert [(row["reward"], row["error"]) for row in rows] == [(1.0, None)] * (2 * examples(bench))
    assert {row["info"]["task_id"] for row in rows} == bench.ground.task_ids
    for row in rows:
        assert row["info"]["error_turns"] == row["error_turns"]
        bench.assert_reported_but_not_shown(row["error_turns"], row["hints"], "etude_reward")


@pytest.mark.parametrize("ground", ["coding"], indirect=True)
@pytest.mark.parametrize("bench", ["0.3.1"], indirect=True)
@pytest.mark.parametrize(("turns", "reward"), [(5, 1.0), (4, 0.0)])
def test_v0_grades_a_rollout_that_was_cut_short(bench: Any, turns: int, reward: float) -> None:
    """The last of five turns applies the solution; it is played although the model never reads its result."""
    rows = played(bench, turns)
    assert [(row["reward"], row["error"]) for row in rows] == [(reward, None)] * 4
    assert {len(row["error_turns"]) for row in rows} == {3}


@pytest.mark.parametrize("ground", ["coding"], indirect=True)
@pytest.mark.parametrize("bench", ["0.4.0"], indirect=True)
def test_load_environment_says_what_to_use_when_there_is_no_v0(bench: Any) -> None:
    code = "import etude_verifiers as e\ntry: e.load_environment()\nexcept ImportError as error: print(error)"
    assert "use the taskset etude-verifiers" in bench.run([bench.bin / "python", "-c", code])
