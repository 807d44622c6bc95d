"""Tests of verifiers' v1 commands against a running server, with our taskset and its own ``nemo-gym`` taskset."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

UNTOUCHED = '\nrewards = { nemo_gym = { fn = "etude_verifiers.untouched:grade" } }'
REFUSED = "NeMo Gym scoring requires exactly one trace branch, got 0"


def sampled(trace: dict[str, Any]) -> int:
    return sum(node["sampled"] for node in trace["nodes"])


def test_eval_plays_our_taskset(bench: Any) -> None:
    traces = bench.eval(bench.ground.ours)
    assert {trace["task"]["key"] for trace in traces} == bench.ground.task_ids
    for trace in traces:
        reply, errors = trace["info"]["etude"], trace["info"]["error_turns"]
        assert trace["ok"] and trace["rewards"]["solved"]["score"] == 1.0
        assert set(reply["reward_components"].values()) == {1.0}
        assert all(trace["metrics"][name] == 1.0 for name in reply["reward_components"])
        assert trace["metrics"]["n_error_turns"] == len(errors) >= 3
        bench.assert_reported_but_not_shown(errors, trace["info"]["hints"], reply["episode_id"])
        for error in errors[:3]:
            assert trace["nodes"][error["node"]]["message"]["tool_calls"][0]["id"] == error["call_id"]
            assert trace["nodes"][error["result_node"]]["message"]["tool_call_id"] == error["call_id"]
    assert len(bench.requests()) == sum(sampled(trace) for trace in traces)


def test_eval_plays_the_stock_taskset(bench: Any) -> None:
    traces = bench.eval(bench.ground.stock)
    assert {trace["info"]["nemo_gym"]["task_id"] for trace in traces} == bench.ground.task_ids
    for trace in traces:
        reply = trace["info"]["nemo_gym"]
        assert trace["ok"] and trace["rewards"]["nemo_gym"]["score"] == 1.0
        assert all(trace["metrics"][name] == 1.0 for name in reply["reward_components"])
        assert trace["metrics"]["n_error_turns"] == len(reply["error_turns"])
        bench.assert_reported_but_not_shown(reply["error_turns"], reply["hints"], reply["episode_id"])
    assert len(bench.requests()) == sum(sampled(trace) for trace in traces)


def test_validate_checks_our_tasks(bench: Any) -> None:
    """Drills have no folder of solutions: 0.3.1 passes such tasks, 0.4 reports them as unchecked."""
    summary, _ = bench.validate(bench.ground.ours)
    checked = bench.ground.name == "coding" or bench.version == "0.3.1"
    other = "setup" if bench.version == "0.3.1" else "noop"
    total = len(bench.ground.task_ids)
    assert summary["total"] == summary["terminal"] == summary["checks"][other]["valid"] == total
    assert summary["checks"]["gold"]["valid" if checked else "unchecked"] == total
    assert summary["outcomes"]["valid" if checked else "unchecked"] == total and summary["owed"] == 0


def test_validate_sets_up_the_stock_tasks(bench: Any) -> None:
    summary, _ = bench.validate(bench.ground.stock, "--only-setup")
    assert summary["outcomes"]["valid"] == summary["total"] == len(bench.ground.task_ids)


@pytest.mark.parametrize("bench", ["0.3.1"], indirect=True)
def test_validate_checks_the_stock_tasks(bench: Any) -> None:
    summary, _ = bench.validate(bench.ground.stock)
    assert summary["outcomes"]["valid"] == summary["total"] == len(bench.ground.task_ids)


@pytest.mark.parametrize("bench", ["0.4.0"], indirect=True)
def test_validate_scores_untouched_stock_tasks_with_our_grade(bench: Any) -> None:
    """The original grade refuses untouched tasks; ours asks the server, and no untouched task is solved."""
    total = len(bench.ground.task_ids)
    stock = bench.ground.stock.removesuffix(" }") + ", " + UNTOUCHED.strip() + " }"
    summary, tasks = bench.validate(stock)
    assert summary["checks"]["noop"]["valid"] == summary["checks"]["gold"]["unchecked"] == total
    assert summary["terminal"] == total and summary["owed"] == 0
    assert {task["noop"]["reward"] for task in tasks} == {0.0}
    refused, tasks = bench.validate(bench.ground.stock)
    assert refused["checks"]["noop"]["error"] == total and all(REFUSED in task["noop"]["error"] for task in tasks)


@pytest.mark.parametrize("ground", ["coding"], indirect=True)
def test_environment_of_the_adapter_has_no_openenv(bench: Any) -> None:
    assert "openenv" not in bench.run([bench.bin / "python", "-m", "pip", "list"]).lower()
    assert "No broken requirements" in bench.run([bench.bin / "python", "-m", "pip", "check"])
