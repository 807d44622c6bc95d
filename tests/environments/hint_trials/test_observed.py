"""What `etude hints eval` counts: error turns with hints, and whether the next attempt worked."""

from __future__ import annotations

from typing import Any

from etude.environments.agents.scripted import call, turn
from etude.environments.hint_trials.observed import KindMeasure, measure
from etude.environments.tool_protocol import NO_CALL
from etude.hints import annotate, transcript
from etude.intervals import wilson
from etude.models import Episode, ToolMessage, Turn

TOOL = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": TOOL}} for name in ("look", "weigh")]


def episode(*steps: tuple[str, str], text: str = "on") -> Episode:
    """Return an episode with one call in each turn: the tool's name ('' for no call) and the status line."""
    turns = []
    for number, (name, status) in enumerate(steps):
        action = turn(text, call(name, id=f"{number}")) if name else turn(text)
        role: Any = "tool" if name else "user"
        turns.append(Turn(action=action, messages=[ToolMessage(role=role, name=name, content=status)]))
    played = Episode(episode_id="e", task_id="t", prompt="Look.", tools=TOOLS, turns=turns)
    played.error_turns = annotate(transcript(played), TOOLS)
    return played


def of_kind(measures: list[KindMeasure], kind: str) -> KindMeasure:
    return next(counts for counts in measures if counts.kind == kind)


def test_the_next_call_of_the_same_tool_is_the_next_attempt() -> None:
    failed = ("look", "error file_not_found: no such file")
    good = episode(failed, ("weigh", "error io_error: empty"), ("look", "ok\nfound"))
    bad = episode(failed, ("weigh", "ok\n3"), ("look", "exit 2\nno"))
    result = of_kind(measure([(good, None), (bad, None)]), "file_not_found")
    assert (result.error_turns, result.attempts, result.succeeded) == (2, 2, 1)
    share = result.next_attempt
    assert share is not None and (share.value, share.low, share.high) == (0.5, *wilson(0.5, 2))


def test_after_a_tool_that_is_not_there_any_tool_is_the_next_attempt() -> None:
    result = measure([(episode(("lok", "error tool_not_found: there is no tool lok"), ("look", "ok\nfound")), None)])
    assert [(one.kind, one.attempts, one.succeeded) for one in result] == [("tool_not_found", 1, 1)]


def test_an_agent_that_never_tries_again_made_no_attempt() -> None:
    result = of_kind(measure([(episode(("look", "error io_error: x"), ("weigh", "ok\n3")), None)]), "nonzero_exit")
    assert (result.attempts, result.next_attempt) == (0, None)


def test_a_behaviour_succeeds_by_not_coming_back() -> None:
    better = episode(("", NO_CALL), ("look", "ok\nfound"), ("weigh", "ok\n3"))
    again = episode(("look", "ok\nfound"), ("", NO_CALL), ("", NO_CALL))
    result = of_kind(measure([(better, None), (again, None)]), "style")
    assert (result.error_turns, result.attempts, result.succeeded) == (3, 2, 1)


def test_hints_are_counted_and_their_length_measured() -> None:
    one, two = (episode(("lok", "error tool_not_found: there is no tool lok")) for _ in range(2))
    length = len(one.error_turns[0].hints[0].text)
    two.error_turns[0].hints = []
    row = of_kind(measure([(one, None), (two, None)]), "tool_not_found").row()
    assert (row["hinted"], row["hinted_share"], row["median_chars"], row["max_chars"]) == (1, 0.5, length, length)


def test_episodes_whose_agent_saw_annotations_are_apart() -> None:
    wrong = episode(("lok", "error tool_not_found: there is no tool lok"))
    result = measure([(wrong, True), (wrong, False), (wrong, True), (wrong, None)])
    assert {(one.shown, one.error_turns) for one in result} == {(True, 2), (False, 1), (None, 1)}
    assert {one.row()["shown"] for one in result} == {"yes", "no", "unknown"}
