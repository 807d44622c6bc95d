"""Parts of formats that the example files do not have, written by hand after the formats' definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.environments.hint_trials.observed import measure_run
from etude.environments.runs.reader import stored_episodes
from etude.errors import RunError

Write = Callable[..., Path]


def trajectory(*steps: dict[str, Any]) -> dict[str, Any]:
    numbered = [{"step_id": number, "message": "", **step} for number, step in enumerate(steps, start=1)]
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": numbered}


def called(name: str, content: str, call_id: str | None = "c", **more: Any) -> dict[str, Any]:
    call = {"tool_call_id": "c", "function_name": name, "arguments": {"command": "x"}}
    result = {"content": content, **({"source_call_id": call_id} if call_id else {})}
    return {"source": "agent", "tool_calls": [call], "observation": {"results": [result]}, **more}


def test_copied_and_scripted_steps_of_a_trajectory_are_no_turns(written: Write, annotate: Any) -> None:
    steps = [
        {"source": "user", "message": "go"},
        called("shell", "exit code: 1", is_copied_context=True),
        called("shell", "prepared", llm_call_count=0, message="I prepare."),
        called("shell", "no such file\n\nexit code: 1", call_id=None),
        {"source": "agent", "message": "keys", "observation": {"results": [{"content": "$ screen"}]}},
    ]
    _, (stored,) = annotate(written("log.json", trajectory(*steps)))
    assert stored.episode.prompt == "go\n\nI prepare.\n\nprepared"
    assert [len(turn.messages) for turn in stored.episode.turns] == [1, 1]
    assert [(error.turn, error.kind) for error in stored.episode.error_turns] == [(0, "nonzero_exit")]
    assert stored.episode.turns[1].messages[0].role == "user"  # what the agent is shown without having called a tool


def line(kind: str, content: Any, number: int, parent: int | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **({"id": f"m{number}", "model": "m"} if kind == "assistant" else {})}
    about = {"uuid": f"u{number}", "parentUuid": None if parent is None else f"u{parent}", "sessionId": "s"}
    return {"type": kind, "message": {**message, **more.pop("message", {})}, "isSidechain": False, **about, **more}


def use(call_id: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}]


def result(call_id: str, content: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": content, **more}]


def test_a_declined_call_and_an_error_of_the_api_are_no_errors_of_the_agent(written: Write, annotate: Any) -> None:
    declined = result("a", "The user doesn't want to proceed with this tool use.", is_error=True)
    failure = line("assistant", "API Error: 500", 4, 3, message={"model": "<synthetic>"}, isApiErrorMessage=True)
    lines = [line("user", "go", 1), line("assistant", use("a"), 2, 1), line("user", declined, 3, 2), failure]
    _, (stored,) = annotate(written("log.jsonl", *lines, line("assistant", "Then not.", 5, 4)))
    assert (len(stored.episode.turns), stored.episode.error_turns) == (2, [])
    assert [message.content for message in stored.episode.turns[0].messages][1] == "API Error: 500"


def test_side_chains_within_one_session_file_are_episodes(written: Write, annotate: Any) -> None:
    """Older versions wrote sub-agents into the file of the session, linked by the ids of lines alone."""
    lines = [
        line("user", "go", 1),
        line("assistant", use("a"), 2, 1),
        line("user", "first sub-task", 3, isSidechain=True),
        line("user", "second sub-task", 4, isSidechain=True),
        line("assistant", use("b"), 5, 3, isSidechain=True),
        line("assistant", "done", 6, 4, isSidechain=True),
        line("user", result("b", "Exit code 2", is_error=True), 7, 5, isSidechain=True),
        line("user", result("a", "done"), 8, 2),
        line("assistant", "ready", 9, 8),
    ]
    _, (main, first, second) = annotate(written("log.jsonl", *lines, lines[-1]))  # the last line twice, as in a resume
    prompts = [stored.episode.prompt for stored in (main, first, second)]
    assert prompts == ["go", "first sub-task", "second sub-task"]
    assert [len(stored.episode.turns) for stored in (main, first, second)] == [2, 1, 1]
    assert [error.kind for error in first.episode.error_turns] == ["nonzero_exit"]


def test_a_limit_of_inspect_is_a_used_budget(written: Write, annotate: Any) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "yes"}]
    sample = {"id": 1, "epoch": 1, "messages": messages, "limit": {"type": "message", "limit": 2}}
    scores = {"scores": {"first": {"value": "C"}, "second": {"value": 0.25}}}
    log = {"version": 2, "eval": {"task": "t", "model": "m"}, "samples": [{**sample, **scores}]}
    _, (stored,) = annotate(written("log.json", log))
    assert (stored.episode.end, stored.log["end"]) == ("budget", "limit: message")
    assert (stored.episode.reward, stored.log["scores"]) == (None, {"first": 1.0, "second": 0.25})


def test_branches_of_a_trace_do_not_repeat_turns(written: Write, annotate: Any) -> None:
    def node(role: str, text: str, parent: int | None, **more: Any) -> dict[str, Any]:
        about = {"parent": parent, "sampled": role == "assistant", **more}
        return {"message": {"role": role, "content": text}, **about}

    nodes = [
        node("user", "go", None),
        node("assistant", "an example", 0, sampled=False),
        node("assistant", "one", 1),
        node("user", "left", 2),
        node("assistant", "two", 3),
        node("user", "right", 2),
        node("assistant", "three", 5),
    ]
    trace = {"id": "t", "task": {"data": {"name": "n"}}, "nodes": nodes, "rewards": {"r": {"score": 0.5, "weight": 2}}}
    _, (first, second) = annotate(written("log.jsonl", {"traces": [trace]}))
    texts = [[turn.action["content"] for turn in stored.episode.turns] for stored in (first, second)]
    assert texts == [["one", "two"], ["three"]]
    assert first.episode.reward is not None and first.episode.reward.value == 1.0


def test_hints_are_measured_in_an_annotated_run_and_other_commands_refuse_it(logs: Path, annotate: Any) -> None:
    report, _ = annotate(logs / "sdk" / "anthropic.json", logs / "sdk" / "chat.json")
    kinds = {kind.kind: (kind.error_turns, kind.hinted) for kind in measure_run(Path(report.out))}
    assert kinds["invalid_args"] == (2, 2) and kinds["malformed_call"] == (1, 1)
    (invalid,) = [kind for kind in measure_run(Path(report.out)) if kind.kind == "invalid_args"]
    assert (invalid.attempts, invalid.succeeded) == (2, 0)  # the next command of the shell fails too
    with pytest.raises(RunError, match="was read from logs of other tools"):
        stored_episodes(Path(report.out))


def test_a_job_of_harbor_has_the_reward_of_each_trial(written: Write, annotate: Any, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    written("job/result.json", {"n_total_trials": 2})
    for name, rewards in {"first": {"reward": 0.5, "style": 2}, "second": {"a": 1, "b": 0}}.items():
        (tmp_path / "job" / name / "agent").mkdir(parents=True)
        written(f"job/{name}/agent/trajectory.json", trajectory({"source": "user", "message": "go"}, called("x", "y")))
        written(
            f"job/{name}/agent/raw.json", [{"role": "user", "content": "go"}, {"role": "assistant", "content": "y"}]
        )
        result = {"task_name": name, "trial_name": f"{name}__1", "verifier_result": {"rewards": rewards}}
        written(f"job/{name}/result.json", {**result, "exception_info": {"exception_type": "AgentTimeoutError"}})
    report, (first, second) = annotate(tmp_path / "job")
    assert [summary.format for summary in report.files] == ["atif", "atif"]  # the agent's raw log is the same episode
    assert first.episode.reward is not None and first.episode.reward.value == 0.5
    assert (second.episode.reward, second.log["scores"]) == (None, {"a": 1.0, "b": 0.0})
    assert (first.episode.task_id, first.log["end"], first.episode.end) == ("first", "AgentTimeoutError", "budget")
