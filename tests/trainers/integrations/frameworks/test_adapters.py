"""Tests of the adapters: lifetime, lost machines, invalid rollouts, and what the modules may import."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from etude.models import ErrorTurn, Reward
from etude.trainers.integrations.frameworks.gymnasium_environment import EtudeEnv
from etude.trainers.integrations.frameworks.token_records import areal_fields, slime_fields, verl_fields
from etude.trainers.integrations.frameworks.turn_records import atropos_group, rllm_steps
from etude.trainers.rollouts.rollout import Rollout, Span

FIRST = {"split": "train", "index": 0}
FOLDER = "trainers/integrations/frameworks"
PURE = ["turns", "token_records", "turn_records"]


def played(*, valid: bool = True, **changes: Any) -> Rollout:
    """Return a rollout with a prompt of 2 ids, and two sampled turns with one written id between them."""
    kind: dict[str, Any] = {"kind": "tool_not_found", "tool": "x", "message": "m", "evidence": "e"}
    fields: dict[str, Any] = {
        "ids": [1, 2, 3, 4, 5, 6],
        "prompt": 2,
        "turns": [Span(1, 2, 4), Span(4, 5, 6)],
        "logprobs": [-1.0, -2.0, 0.0, -3.0],
        "reward": Reward(value=1.0, valid=valid),
        "error_turns": [ErrorTurn(turn=0, **kind), ErrorTurn(turn=1, **kind, injected=True)],
        "messages": [{"role": role, "content": ""} for role in ("user", "assistant", "tool", "assistant", "tool")],
    }
    return Rollout(task_id="t", episode_id="e", end="submit", **{**fields, **changes})


def test_environment_passes_gymnasiums_own_check_when_its_spaces_are_text(drills: Any) -> None:
    env = EtudeEnv(drills.url)
    text, info = env.reset(seed=3)
    assert env.observation_space.contains(text) and info["tools"]
    assert env.reset(seed=3)[0] == text, "a seed names the task"
    text, reward, terminated, truncated, info = env.step("no call")
    assert env.observation_space.contains(text) and (reward, terminated, truncated, info) == (0.0, False, False, {})
    env.close()


def test_environment_gives_its_session_back_when_it_is_closed(limited_url: str) -> None:
    for _ in range(6):  # the server has room for 4
        env = EtudeEnv(limited_url)
        env.reset(options=FIRST)
        env.close()
        env.close()


def test_environment_reports_no_score_when_its_server_dies(mortal: Any) -> None:
    process, url = mortal
    env = EtudeEnv(url)
    env.reset(options=FIRST)
    process.kill()
    process.wait()
    _, reward, terminated, truncated, info = env.step(json.dumps({"content": "hello"}))
    assert math.isnan(reward) and truncated and not terminated
    assert not info["valid"] and info["reward"] is None and info["problem"]
    env.close()


def test_vector_of_environments_plays_episodes_at_the_same_time(drills: Any) -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: EtudeEnv(drills.url) for _ in range(2)])
    texts, _ = envs.reset(seed=[1, 2])
    assert len(texts) == 2 and all(json.loads(text)[0]["role"] == "user" for text in texts)
    envs.close()


def test_record_is_dropped_and_not_zero_when_the_rollout_is_invalid() -> None:
    lost = played(valid=False)
    assert verl_fields(lost) is None and areal_fields(lost) is None and rllm_steps(lost) is None
    assert atropos_group([lost, played()])["scores"] == [1.0]
    fields = slime_fields(lost)
    assert (fields["reward"], fields["status"], fields["remove_sample"]) == (None, "aborted", True)


def test_record_has_a_mask_and_a_number_for_each_id() -> None:
    fields, areal = verl_fields(played()), areal_fields(played())
    assert fields is not None and areal is not None
    assert (fields["prompt_ids"], fields["response_ids"]) == ([1, 2], [3, 4, 5, 6])
    assert fields["response_mask"] == [1, 1, 0, 1] == slime_fields(played())["loss_mask"]
    assert areal["loss_mask"] == [[0, 0, 1, 1, 0, 1]] and areal["logprobs"] == [[0, 0, -1.0, -2.0, 0.0, -3.0]]
    assert atropos_group([played()])["masks"] == [[-100, -100, 3, 4, -100, 6]]


def test_turn_has_a_negative_reward_when_its_error_could_be_foreseen() -> None:
    fields, steps = verl_fields(played()), rllm_steps(played())
    assert fields is not None and steps is not None
    assert fields["extra_fields"]["turn_rewards"] == [-1.0, 0.0], "the second error is injected"
    assert [(step["prompt_ids"], step["response_ids"], step["reward"], step["done"]) for step in steps] == [
        ([1, 2], [3, 4], -1.0, False),
        ([1, 2, 3, 4, 5], [6], 0.0, True),
    ]
    (messages,) = atropos_group([played()])["messages"]
    assert [message.get("reward") for message in messages] == [None, -1.0, None, 0.0, None]


def test_messages_of_atropos_have_the_content_that_its_api_requires() -> None:
    """A rollout's assistant messages are actions, whose text is ``text``."""
    turn = {"role": "assistant", "text": "I look.", "tool_calls": [{"name": "ls"}]}
    answer = {"role": "tool", "content": "ok", "tool_call_id": "a"}
    (messages,) = atropos_group([played(messages=[{"role": "user", "content": "p"}, turn, answer, turn])])["messages"]
    assert [message["content"] for message in messages] == ["p", "I look.", "ok", "I look."]
    assert [message.get("reward") for message in messages] == [None, -1.0, None, 0.0]
    assert not any("text" in message for message in messages) and messages[1]["tool_calls"] == turn["tool_calls"]


def test_adapter_is_short_and_imports_no_internals(root: Path) -> None:
    for path in (root / FOLDER).glob("*.py"):
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 60, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert node.module == "__future__" or not [name for name in names if name.startswith("_")], path.name


@pytest.mark.parametrize("module", [*PURE, "gymnasium_environment"])
def test_adapter_loads_no_torch_and_no_server(module: str) -> None:
    name = f"etude.{FOLDER.replace('/', '.')}.{module}"
    code = f"import sys, {name}; print({{'torch', 'openenv', 'trl'}} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "set()\n"
