"""A host's account of a rollout in the Responses format: its turns, whose answers are whose, injected faults."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.tool_protocol import NO_CALL
from etude.models import ErrorTurn
from etude.server.routes.responses import error_turns, last_text, transcript

TOOLS = [{"type": "function", "function": {"name": "say", "parameters": {"type": "object", "properties": {}}}}]


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(number: int, name: str = "say", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": arguments}


def output(number: int, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": text}


def episode(*answers: str, errors: list[ErrorTurn] | None = None) -> dict[str, Any]:
    """Return an episode as it is served, with one call of ``say`` in each turn."""
    messages = [
        {"role": "tool", "tool_call_id": f"mcp-{n}", "name": "say", "content": a} for n, a in enumerate(answers)
    ]
    errors_json = [error.model_dump(mode="json") for error in errors or []]
    calls = [{"tool_calls": [{"id": f"mcp-{n}", "name": "say", "arguments": {}}]} for n in range(len(answers))]
    turns = [{"action": call, "messages": [message]} for call, message in zip(calls, messages, strict=True)]
    about = {"episode_id": "e", "task_id": "t", "prompt": "Say it.", "tools": TOOLS}
    return {**about, "error_turns": errors_json, "turns": turns}


def test_transcript_turns_items_into_messages() -> None:
    items = [
        message("Both."),
        call(1),
        call(2),
        output(1, "ok"),
        output(2, "ok"),
        call(3),
        output(3, "ok"),
        message("Done."),
    ]
    messages = transcript("Say it.", TOOLS, [{"type": "reasoning", "summary": []}, *items])
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert [c["id"] for c in messages[1]["tool_calls"]] == ["c1", "c2"] and messages[1]["content"] == "Both."
    assert messages[-1] == {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize("kind", [["x"], {"a": 1}, None, 7, True])
def test_transcript_ignores_items_of_odd_types(kind: Any) -> None:
    items = [call(1), output(1, "ok"), {"type": kind, "call_id": [1], "name": {}}]
    assert transcript("", TOOLS, items) == transcript("", TOOLS, items[:2])
    assert last_text({"output": items}) == ""


def test_transcript_reads_the_call_when_an_answer_has_no_status_line() -> None:
    items = [call(1, "grep", "{}"), output(1, "error: no"), call(2, "say", "{"), output(2, "error: no")]
    items += [call(3), output(3, "error: no")]
    contents = [m["content"] for m in transcript("", TOOLS, items) if m["role"] == "tool"]
    broken = "error malformed_call: arguments are not valid JSON: "
    assert contents[0] == "error tool_not_found: there is no tool 'grep'" and contents[2] == "error: no"
    assert contents[1].startswith(broken) and contents[1].endswith("at line 1 column 2")


@pytest.mark.parametrize("response", [{"output": []}, None])
def test_error_turns_are_the_sessions_when_the_host_reports_no_turn(response: Any) -> None:
    errors = error_turns(episode("ok", "timeout 30s"), response)
    assert [(error.turn, error.kind) for error in errors if error.call_id] == [(1, "timeout")]


def test_error_turns_leave_out_turns_that_only_ended_the_session() -> None:
    seen = episode("timeout 30s")
    answer = {"role": "user", "content": NO_CALL}
    seen["turns"] += [{"action": {"text": ""}, "messages": [answer]}] * 2
    (error,) = [error for error in error_turns(seen, None, played=1) if error.kind != "style"]
    assert (error.turn, error.kind, error.recovered) == (0, "timeout", None)
    assert {error.turn for error in error_turns(seen, None)} == {0, 1, 2}
    assert error_turns(seen, None, played=0) == []


def test_error_turns_place_an_injected_fault_after_calls_that_never_reached_the_session() -> None:
    fault = ErrorTurn(turn=1, kind="timeout", tool="say", injected=True, message="a stalled network")
    items = [call(1, "grep"), output(1, "error: unknown tool"), call(2), output(2, "ok\nlong"), message("Again.")]
    items += [call(3), output(3, "timeout 30s"), call(4), output(4, "ok")]
    errors = error_turns(episode("ok\nlonger", "timeout 30s", "ok", errors=[fault]), {"output": items})
    calls = [(error.turn, error.kind, error.injected, error.site) for error in errors if error.call_id]
    assert calls == [(0, "tool_not_found", False, "erring"), (2, "timeout", True, "recovery")]


def test_error_turns_compare_a_claim_with_the_frozen_diff() -> None:
    items = [call(1), output(1, "ok"), message("I have changed src/scales/notes.py and all is well.")]
    results = [
        error_turns(episode("ok"), {"output": items}, changed=paths) for paths in ([], ["src/scales/notes.py"], None)
    ]
    assert [[error.kind for error in errors].count("false_claim") for errors in results] == [1, 0, 0]


def test_last_text_is_empty_when_the_model_stopped_with_a_call() -> None:
    assert last_text({"output": [message("Hm."), call(1)]}) == ""
    assert last_text({"output": [call(1), message("Done.")]}) == "Done."
    assert last_text(None) == last_text({"output": 3}) == ""
