"""verifiers' nodes as Responses items, and error turns at the nodes where they happened."""

from __future__ import annotations

from types import SimpleNamespace as Made
from typing import Any


def said(text: Any, *calls: str, sampled: bool = True) -> Any:
    made = [Made(id=call, name="bash", arguments="{}") for call in calls]
    return Made(message=Made(role="assistant", content=text, tool_calls=made or None), sampled=sampled)


def other(role: str, text: Any, call_id: str = "") -> Any:
    return Made(message=Made(role=role, content=text, tool_call_id=call_id), sampled=False)


NODES = [
    other("user", "Do it."),
    said("an example", sampled=False),
    said(None, "a", "b"),
    other("tool", "ok", "a"),
    other("tool", [Made(text="exit "), Made(text="1")], "b"),
    said("Again.", "a"),
    other("tool", "ok", "a"),
    said("Done."),
]


def test_each_sampled_message_is_a_turn(rollout: Any) -> None:
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


def test_an_error_is_placed_by_turn_and_call_id(rollout: Any) -> None:
    errors = [{"turn": turn, "call_id": call} for turn, call in ((0, "b"), (1, "a"), (2, ""), (9, "a"))]
    placed = [(error["node"], error["result_node"]) for error in rollout.placed(errors, NODES)]
    assert placed == [(2, 4), (5, 6), (7, None), (None, None)]


def test_a_rollout_without_a_turn_is_empty(rollout: Any) -> None:
    assert rollout.responses_output(NODES[:2]) == []
