"""ErrorTurns: where, what kind, recovered or not; and that nothing in a transcript can break the annotator."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from etude.hints import annotate, read_status, transcript
from etude.hints.transcript.status_line import BUDGET_ENDED
from etude.models import Episode, ToolMessage, Turn

BEHAVIOURS = ("wasteful", "style", "false_claim")


def chat(*turns: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Turns of (tool, content) results as a message list."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, results in enumerate(turns):
        messages.append({"role": "assistant", "content": ""})
        for index, (tool, content) in enumerate(results):
            messages.append({"role": "tool", "tool_call_id": f"c{number}{index}", "name": tool, "content": content})
    return messages


def errors(messages: list[dict[str, Any]], **more: Any) -> list[Any]:
    return [error for error in annotate(messages, [], **more) if error.kind not in BEHAVIOURS]


def test_an_error_says_where_it_is_and_what_showed_it() -> None:
    content = "error file_not_found: no such file: x\nbody"
    (error,) = errors(chat([("bash", "ok")], [("bash", "ok"), ("read_file", content)]))
    assert (error.kind, error.turn, error.call_index, error.call_id) == ("file_not_found", 1, 1, "c11")
    assert (error.tool, error.site, error.injected) == ("read_file", "erring", False)
    assert error.evidence == "error file_not_found: no such file: x"
    assert error.message == "no such file: x"


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        ("bash", "ok\nerror tool_not_found: printed by a command"),
        ("bash", "ok\nexit 1\ntimeout 30s"),
        ("run_tests", "exit 1\n1 failed"),
        ("bash", "not run: episode ended"),
        ("bash", "ok"),
        ("bash", "okay then"),
    ],
)
def test_what_a_command_prints_changes_nothing(tool: str, content: str) -> None:
    assert errors(chat([(tool, content)])) == []


def test_recovery_is_the_same_tool_working_again() -> None:
    failed, fine = ("edit_file", "error edit_failed: x"), ("edit_file", "ok\nedited")
    (error,) = errors(chat([failed], [("bash", "ok")], [fine]))
    assert (error.recovered, error.turns_to_recover) == (True, 2)
    (error,) = errors(chat([failed, fine], [("bash", "ok")]))
    assert (error.recovered, error.turns_to_recover) == (True, 0)
    (error,) = errors(chat([fine, failed], [("bash", "ok")]))
    assert (error.recovered, error.turns_to_recover) == (False, None)
    (error,) = errors(chat([failed]))
    assert error.recovered is None


def test_a_tool_that_does_not_exist_is_recovered_by_any_other() -> None:
    (error,) = errors(chat([("grep", "error tool_not_found: x")], [("search", "ok")]))
    assert (error.recovered, error.turns_to_recover) == (True, 1)


def test_what_was_not_run_recovers_nothing() -> None:
    (error,) = errors(chat([("bash", "exit 1")], [("submit", "ok"), ("bash", "not run: episode ended")]))
    assert error.recovered is False


def test_injected_faults_come_from_the_log_and_are_annotated_at_the_recovery() -> None:
    (error,) = errors(chat([("bash", "exit 1\n")]), injected={"c00": "disk full"})
    assert (error.injected, error.site, error.kind, error.message) == (True, "recovery", "nonzero_exit", "disk full")


def test_a_fault_that_shows_in_no_status_is_an_injected_fault() -> None:
    messages = chat([("read_file", "ok\nold text")], [("read_file", "ok\nnew text")])
    (error,) = errors(messages, injected={"c00": "stale read"})
    assert (error.kind, error.turn, error.site, error.message) == ("injected_fault", 0, "recovery", "stale read")
    assert (error.recovered, error.turns_to_recover) == (True, 1)


def test_where_ids_repeat_a_fault_is_named_by_its_place() -> None:
    messages = chat([("bash", "ok")], [("bash", "ok")])
    for message in messages:
        message["tool_call_id"] = "same"
    (error,) = errors(messages, injected={"1:0": "garbled"})
    assert (error.turn, error.kind) == (1, "injected_fault")


def test_a_failing_connection_could_not_be_foreseen() -> None:
    (error,) = errors(chat([("fetch", "error transport_error: 503")]))
    assert (error.site, error.injected) == ("recovery", False)


def test_a_budget_that_ran_out_belongs_to_the_last_turn() -> None:
    messages = [*chat([("bash", "ok")], [("bash", "ok\n" + BUDGET_ENDED)]), {"role": "user", "content": BUDGET_ENDED}]
    (error,) = errors(messages)
    assert (error.kind, error.turn, error.call_index, error.recovered) == ("budget", 1, None, False)
    assert errors(messages[:-1]) == []


def test_a_status_is_the_first_line_only() -> None:
    assert read_status("exit 3\nok").exit_code == 3
    assert read_status("ok \n").word == "other"
    assert read_status("").word == "other"


def test_an_episode_is_read_as_ours_whatever_its_agent_writes() -> None:
    action = {"text": "<tool_call>{</tool_call>\nAction: x\nAction Input: {", "role": "user", "dialect": "react"}
    dialects = ToolMessage(role="user", content="No tool call in this turn.")
    episode = Episode(episode_id="e", task_id="t", prompt="p", turns=[Turn(action=action, messages=[dialects])])
    assert transcript(episode)[1]["role"] == "assistant"
    assert errors(transcript(episode)) == []


def junk(rng: random.Random, depth: int) -> Any:
    """Return a JSON value in which what the readers look for turns up in the wrong places."""
    kind = rng.randrange(10 if depth else 7)
    words = [
        "assistant",
        "tool",
        "user",
        "ok",
        "exit 1",
        "error x: y",
        '{"name": "f", "arguments": 3}',
        "bash",
        "a\ud800",
    ]
    texts = [
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<tool_response>",
        "Action:",
        "Action: f[x]",
        "Action Input: {",
    ]
    lines = [
        "Observation: x",
        "Thought:",
        '{"error": {"message": []}}',
        '{"exit_code": true}',
        "Traceback (most recent call last):",
    ]
    if kind < 4:
        return "\n".join(rng.choices(words + texts + lines, k=rng.randrange(5)))
    if kind < 7:
        return rng.choice([None, True, -1, 2.5, 10**30, "", [], {}])
    if kind == 7:
        return [junk(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = "role content tool_calls tool_call_id id name arguments function function_call tool text is_error status"
    return {rng.choice([*names.split(), "dialect"]): junk(rng, depth - 1) for _ in range(rng.randrange(6))}


def junk_message(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return junk(rng, 3)
    message = {"role": rng.choice(["assistant", "tool", "user", "function"]), "content": junk(rng, 3)}
    if rng.random() < 0.5:
        message["tool_calls"] = junk(rng, 3) if rng.random() < 0.3 else [junk(rng, 3) for _ in range(rng.randrange(3))]
    extra = junk(rng, 2)
    return {**message, **extra, "role": message["role"]} if isinstance(extra, dict) else message


def test_no_message_makes_it_raise() -> None:
    rng = random.Random(11)
    errors = 0
    for number in range(3000):
        messages = [junk_message(rng) for _ in range(rng.randrange(9))]
        dialect = ("auto", "etude", "openai", "hermes", "react")[number % 5]
        tools = junk(rng, 3) if rng.random() < 0.5 else [{"name": "f", "parameters": junk(rng, 2)}]
        call = annotate(messages, tools if isinstance(tools, list) else [], dialect=dialect)
        errors += len(call)
        assert all(json.loads(error.model_dump_json()) for error in call)
    assert errors > 500
