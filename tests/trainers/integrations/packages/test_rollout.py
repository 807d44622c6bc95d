"""Tests of verifiers' nodes as Responses items, and of error turns placed at their nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def assistant(text: Any, *calls: str, sampled: bool = True) -> Any:
    tool_calls = [SimpleNamespace(id=call, name="bash", arguments="{}") for call in calls]
    return SimpleNamespace(
        message=SimpleNamespace(role="assistant", content=text, tool_calls=tool_calls or None), sampled=sampled
    )


def other(role: str, text: Any, call_id: str = "") -> Any:
    return SimpleNamespace(message=SimpleNamespace(role=role, content=text, tool_call_id=call_id), sampled=False)


NODES = [
    other("user", "Do it."),
    assistant("an example", sampled=False),
    assistant(None, "a", "b"),
    other("tool", "ok", "a"),
    other("tool", [SimpleNamespace(text="exit "), SimpleNamespace(text="1")], "b"),
    assistant("Again.", "a"),
    other("tool", "ok", "a"),
    assistant("Done."),
]


def test_each_sampled_message_becomes_a_turn(rollout: Any) -> None:
    items = rollout.responses_output(NODES)
    kinds = [item["type"].removeprefix("function_") for item in items]
    assert kinds == [
        "message",
        "call",
        "call",
        "call_output",
        "call_output",
        "message",
        "call",
        "call_output",
        "message",
    ]
    assert [item["output"] for item in items if "output" in item] == ["ok", "exit 1", "ok"]
    assert items[0]["content"][0]["text"] == "" and items[-1]["content"][0]["text"] == "Done."


def test_error_is_placed_by_turn_and_call_id(rollout: Any) -> None:
    errors = [{"turn": turn, "call_id": call} for turn, call in ((0, "b"), (1, "a"), (2, ""), (9, "a"))]
    placed = [(error["node"], error["result_node"]) for error in rollout.place_errors(errors, NODES)]
    assert placed == [(2, 4), (5, 6), (7, None), (None, None)]


def test_rollout_without_a_turn_is_empty(rollout: Any) -> None:
    assert rollout.responses_output(NODES[:2]) == []


def test_turn_rewards_count_errors_that_could_be_foreseen(rollout: Any) -> None:
    fields = [(0, False, "erring"), (1, True, "erring"), (2, False, "recovery")]
    errors = [{"turn": turn, "call_id": "", "injected": injected, "site": site} for turn, injected, site in fields]
    rewards = rollout.turn_rewards(rollout.place_errors(errors, NODES), NODES)
    assert [(reward["turn"], reward["node"], reward["reward"]) for reward in rewards] == [
        (0, 2, -1.0),
        (1, 5, 0.0),
        (2, 7, 0.0),
    ]
