"""Intervals, and what `etude hints eval` counts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from etude.environments.actions import call, turn
from etude.environments.tool_protocol import NO_CALL
from etude.hints import annotate, transcript
from etude.hints.hint_stats import KindMeasure, measure
from etude.hints.intervals import Arms, newcombe, stratified, wilson
from etude.models import Episode, ToolMessage, Turn

TOOL = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": TOOL}} for name in ("look", "weigh")]


def episode(*steps: tuple[str, str], text: str = "on") -> Episode:
    """Turns of one call: the tool's name ('': no call), and the status line that answered."""
    turns = []
    for number, (name, status) in enumerate(steps):
        action = turn(text, call(name, id=f"{number}")) if name else turn(text)
        role: Any = "tool" if name else "user"
        turns.append(Turn(action=action, messages=[ToolMessage(role=role, name=name, content=status)]))
    made = Episode(episode_id="e", task_id="t", prompt="Look.", tools=TOOLS, turns=turns)
    made.error_turns = annotate(transcript(made), TOOLS)
    return made


def of_kind(found: list[KindMeasure], kind: str) -> KindMeasure:
    return next(one for one in found if one.kind == kind)


# --- Intervals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arms", "low", "high"),
    [  # Newcombe 1998, table II: method 10 (score, no continuity correction), examples (a) to (h)
        (Arms(56, 70, 48, 80), 0.0524, 0.3339),
        (Arms(9, 10, 3, 10), 0.1705, 0.8090),
        (Arms(6, 7, 2, 7), 0.0582, 0.8062),
        (Arms(5, 56, 0, 29), -0.0381, 0.1926),
        (Arms(0, 10, 0, 20), -0.1611, 0.2775),
        (Arms(0, 10, 0, 10), -0.2775, 0.2775),
        (Arms(10, 10, 0, 20), 0.6791, 1.0),
        (Arms(10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_newcombes_published_intervals(arms: Arms, low: float, high: float) -> None:
    found = newcombe(arms)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize(("first", "second"), [(0.7, 0.25), (0.91, 0.1), (0.5, 0.5), (0.99, 0.9)])
def test_newcombes_interval_covers_as_often_as_it_says(first: float, second: float) -> None:
    """Exactly, over all outcomes of 40 trials and 40."""
    n = 40
    chance = [[math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)] for p in (first, second)]
    covered = sum(
        chance[0][a] * chance[1][b]
        for a in range(n + 1)
        for b in range(n + 1)
        if first - second in newcombe(Arms(a, n, b, n))
    )
    assert 0.94 < covered < 0.98


def test_one_stratum_is_newcombes_and_equal_ones_are_as_good_as_more_trials() -> None:
    assert stratified([Arms(9, 10, 3, 10)]) == newcombe(Arms(9, 10, 3, 10))
    found, whole = stratified([Arms(9, 10, 3, 10)] * 4), newcombe(Arms(36, 40, 12, 40))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high))


def test_strata_are_compared_within_not_across() -> None:
    """Simpson's paradox: worse in both strata, better in the sum, since the arms were tried where they do well."""
    strata = [Arms(81, 87, 234, 270), Arms(192, 263, 55, 80)]
    found = stratified(strata)
    assert found is not None and found.value > 0
    assert newcombe(Arms(273, 350, 289, 350)).value < 0


def test_a_stratum_with_one_arm_only_tells_nothing() -> None:
    assert stratified([Arms(3, 4, 0, 0), Arms(9, 10, 3, 10)]) == newcombe(Arms(9, 10, 3, 10))
    assert stratified([Arms(3, 4, 0, 0)]) is None


def test_wilson_stays_within_zero_and_one() -> None:
    assert wilson(0.0, 1)[0] == 0.0
    assert wilson(1.0, 1)[1] == 1.0


# --- What came next -----------------------------------------------------------------------------------------


def test_the_next_call_of_the_same_tool_is_the_next_attempt() -> None:
    failed = ("look", "error file_not_found: no such file")
    good = episode(failed, ("weigh", "error io_error: empty"), ("look", "ok\nfound"))
    bad = episode(failed, ("weigh", "ok\n3"), ("look", "exit 2\nno"))
    found = of_kind(measure([(good, None), (bad, None)]), "file_not_found")
    assert (found.error_turns, found.attempts, found.succeeded) == (2, 2, 1)
    share = found.next_attempt
    assert share is not None and (share.value, share.low, share.high) == (0.5, *wilson(0.5, 2))


def test_after_a_tool_that_is_not_there_any_tool_is_the_next_attempt() -> None:
    found = measure([(episode(("lok", "error tool_not_found: there is no tool lok"), ("look", "ok\nfound")), None)])
    assert [(one.kind, one.attempts, one.succeeded) for one in found] == [("tool_not_found", 1, 1)]


def test_an_agent_that_never_tries_again_made_no_attempt() -> None:
    found = of_kind(measure([(episode(("look", "error io_error: x"), ("weigh", "ok\n3")), None)]), "nonzero_exit")
    assert (found.attempts, found.next_attempt) == (0, None)


def test_a_behaviour_succeeds_by_not_coming_back() -> None:
    better = episode(("", NO_CALL), ("look", "ok\nfound"), ("weigh", "ok\n3"))
    again = episode(("look", "ok\nfound"), ("", NO_CALL), ("", NO_CALL))
    found = of_kind(measure([(better, None), (again, None)]), "style")
    assert (found.error_turns, found.attempts, found.succeeded) == (3, 2, 1)


def test_hints_are_counted_and_their_length_measured() -> None:
    one, two = (episode(("lok", "error tool_not_found: there is no tool lok")) for _ in range(2))
    length = len(one.error_turns[0].hints[0].text)
    two.error_turns[0].hints = []
    row = of_kind(measure([(one, None), (two, None)]), "tool_not_found").row()
    assert (row["hinted"], row["hinted_share"], row["median_chars"], row["max_chars"]) == (1, 0.5, length, length)


def test_episodes_whose_agent_saw_annotations_are_apart() -> None:
    wrong = episode(("lok", "error tool_not_found: there is no tool lok"))
    found = measure([(wrong, True), (wrong, False), (wrong, True), (wrong, None)])
    assert {(one.shown, one.error_turns) for one in found} == {(True, 2), (False, 1), (None, 1)}
    assert {one.row()["shown"] for one in found} == {"yes", "no", "unknown"}
