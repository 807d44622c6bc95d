"""The learned chooser in worlds where the worth of every hint is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from etude.environments.hint_trials.hint_policy import Policy, always, draw, uniform
from etude.models import ErrorTurn, Hint
from etude.research.hint_chooser.chooser import Chooser, Logged, best_ridge, choice_from, fit, learned
from etude.research.hint_chooser.off_policy import LogError, best_single, evaluate, greedy, learn

ARMS = ("again", "nearest", "schema", "text:step-back", "llm")
KINDS = ("tool_not_found", "invalid_args", "timeout", "traceback", "edit_failed")
TOOLS, ATTEMPTS = ("bash", "edit_file"), ("1", "2", "3")
Worth = dict[tuple[str, str, str], dict[str, float]]


def world(seed: int) -> Worth:
    """The chance of success of each arm in each context: one arm fits a kind of error, and attempts matter too."""
    chance = random.Random(f"world {seed}")
    fits = {kind: chance.choice(ARMS) for kind in KINDS}
    by_kind = {(arm, kind): 0.7 if arm == fits[kind] else chance.uniform(0.1, 0.4) for arm in ARMS for kind in KINDS}
    by_attempt = {(arm, attempt): chance.uniform(-0.2, 0.2) for arm in ARMS for attempt in ATTEMPTS}
    return {
        (kind, tool, attempt): {
            arm: min(0.95, max(0.05, by_kind[arm, kind] + by_attempt[arm, attempt] + chance.uniform(-0.1, 0.1)))
            for arm in ARMS
        }
        for kind, tool, attempt in product(KINDS, TOOLS, ATTEMPTS)
    }


def play(worth: Worth, policy: Policy, number: int, seed: int, first: int = 0) -> list[Logged]:
    """Choices by a policy, with their exact propensities; now and then an arm is not to be had."""
    chance = random.Random(f"play {seed}")
    logs = []
    for turn in range(first, first + number):
        where = chance.choice(list(worth))
        context = dict(zip(("kind", "tool", "attempt"), where, strict=True))
        arms = tuple(arm for arm in ARMS if arm != "llm" or chance.random() < 0.7)
        chances = policy(context, arms)
        arm = draw(chances, chance.random())
        reward = float(chance.random() < worth[where][arm])
        logs.append(Logged(context, arms, arm, chances[arm], reward, f"turn {turn}"))
    return logs


def true_value(worth: Worth, policy: Policy) -> float:
    """Return what a policy earns, exactly: contexts are equally frequent, ``llm`` is there in 70 of 100."""
    total = 0.0
    for (kind, tool, attempt), values in worth.items():
        context = {"kind": kind, "tool": tool, "attempt": attempt}
        for arms, share in ((ARMS, 0.7), (ARMS[:-1], 0.3)):
            total += share * sum(chance * values[arm] for arm, chance in policy(context, arms).items())
    return total / len(worth)


def logging_policy() -> Policy:
    """Return an earlier chooser that knew little and explored."""
    return Chooser(mean=0.4, weights={"again": {"": 0.2}}, epsilon=0.3, temperature=0.2).probabilities


@pytest.mark.parametrize("seed", range(3))
def test_the_learned_choice_beats_random_and_the_best_single_hint(seed: int) -> None:
    """On held-out logs, and in truth; the single hint here is the best one there is, in truth."""
    worth = world(seed)
    found = learn(play(worth, logging_policy(), 3000, seed), seed=seed, draws=60)
    chosen, model = greedy(found.chooser), found.chooser
    best = max((always(arm) for arm in ARMS), key=lambda policy: true_value(worth, policy))
    held_out = play(worth, logging_policy(), 2000, seed + 100, first=3000)
    for rival in (uniform, best, always(found.best_single)):
        assert true_value(worth, chosen) > true_value(worth, rival) + 0.03
        gain = evaluate(held_out, chosen, model, against=rival, draws=60).gain
        assert gain is not None and gain.low > 0
    assert found.policies["random"].gain is not None and found.policies["random"].gain.low > 0
    assert found.policies["best single"].gain is not None and found.policies["best single"].gain.value > 0


@pytest.mark.parametrize("seed", range(3))
def test_one_hint_is_chosen_everywhere_when_contexts_make_no_difference(seed: int) -> None:
    """Eight hundred choices in thirty contexts; the second best hint is 0.08 behind."""
    alike = dict(zip(ARMS, (0.52, 0.44, 0.36, 0.4, 0.44), strict=True))
    worth = dict.fromkeys(world(seed), alike)
    chooser = fit(play(worth, uniform, 800, seed))
    assert best_ridge(play(worth, uniform, 800, seed)) > 30
    assert true_value(worth, greedy(chooser)) > true_value(worth, always("again")) - 0.02


def test_the_estimators_find_the_value_of_a_policy_that_was_not_played() -> None:
    worth = world(7)
    model = fit(play(worth, uniform, 1500, 1))
    target = fit(play(worth, uniform, 500, 2)).probabilities
    truth = true_value(worth, target)
    errors: dict[str, list[float]] = {"ips": [], "snips": [], "dr": []}
    for seed in range(12):
        found = evaluate(play(worth, logging_policy(), 800, 50 + seed), target, model, draws=2)
        for name, values in errors.items():
            values.append(getattr(found, name).value - truth)
    spread = {name: (sum(each * each for each in values) / 12) ** 0.5 for name, values in errors.items()}
    for name, values in errors.items():
        # The mean of 12 is off by more than 5 of its standard errors once in a million times.
        assert abs(sum(values) / 12) < 5 * spread[name] / 12**0.5
        assert spread[name] < 0.1
    assert spread["dr"] < spread["ips"]


def test_doubly_robust_estimate_is_right_with_a_wrong_model() -> None:
    worth = world(3)
    wrong = Chooser(mean=0.9, weights={arm: {"": -0.8} for arm in ARMS[:2]})
    found = evaluate(play(worth, uniform, 4000, 5), always("schema"), wrong, draws=60)
    truth = true_value(worth, always("schema"))
    assert found.dr.low - 0.02 < truth < found.dr.high + 0.02
    assert wrong.value({}, "schema") - truth > 0.2


def test_estimates_by_hand() -> None:
    """Two rows: the target plays b with 1/2; the log played it with 1/4."""
    rows = [Logged({}, ("a", "b"), "b", 0.25, 1.0, "1"), Logged({}, ("a", "b"), "a", 0.75, 0.5, "2")]
    found = evaluate(rows, uniform, Chooser(mean=0.5), draws=10)
    weights = [0.5 / 0.25, 0.5 / 0.75]
    assert found.ips.value == pytest.approx((weights[0] * 1.0 + weights[1] * 0.5) / 2)
    assert found.snips.value == pytest.approx((weights[0] * 1.0 + weights[1] * 0.5) / sum(weights))
    assert found.dr.value == pytest.approx((0.5 + weights[0] * 0.5 + 0.5 + 0.0) / 2)
    assert found.effective == pytest.approx(sum(weights) ** 2 / sum(weight**2 for weight in weights))


def test_rows_of_one_error_turn_count_as_one_in_the_interval() -> None:
    logs = play(world(1), uniform, 60, 9)
    alone = evaluate(logs, uniform, Chooser(), draws=400).ips
    copies = evaluate([log for log in logs for _ in range(9)], uniform, Chooser(), draws=400).ips
    assert (copies.low, copies.high) == pytest.approx((alone.low, alone.high), abs=0.03)


def test_the_propensity_is_exact() -> None:
    chooser = Chooser(mean=0.0, weights={"again": {"": 1.0}}, epsilon=0.2, temperature=1.0)
    chances = chooser.probabilities({}, ["again", "nearest"])
    assert chances["again"] == pytest.approx(0.1 + 0.8 * 2.718281828 / 3.718281828)
    assert sum(chances.values()) == pytest.approx(1.0)
    drawn = random.Random(0)
    often = sum(draw(chances, drawn.random()) == "again" for _ in range(10_000))
    assert abs(often / 10_000 - chances["again"]) < 5 * (0.25 / 10_000) ** 0.5


def test_a_new_tool_falls_back_to_its_kind() -> None:
    chooser = fit(play(world(2), uniform, 3000, 3))
    for kind in KINDS:
        value = {arm: chooser.value({"kind": kind, "tool": "new", "attempt": "1"}, arm) for arm in ARMS}
        known = {arm: chooser.value({"kind": kind, "tool": "bash", "attempt": "1"}, arm) for arm in ARMS}
        assert sum(abs(value[arm] - known[arm]) for arm in ARMS) / len(ARMS) < 0.15
    assert chooser.value({"kind": "timeout"}, "never tried") == chooser.mean


def test_the_same_logs_give_the_same_chooser_in_any_order() -> None:
    logs = play(world(4), uniform, 400, 4)
    one, other = fit(logs), fit(logs[::-1])
    assert one.weights.keys() == other.weights.keys()
    for arm, weights in one.weights.items():
        assert weights == pytest.approx(other.weights[arm], abs=1e-5)
    assert Chooser.model_validate_json(one.model_dump_json()) == one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: replace(log, propensity=0.0), "row 1 has the propensity 0.0"),
        (lambda log: replace(log, propensity=1.5), "row 1 has the propensity 1.5"),
        (lambda log: replace(log, arm="other"), "row 1 took the arm 'other', which is not one of its arms"),
    ],
)
def test_a_log_without_an_exact_propensity_is_refused(change: Callable[[Logged], Logged], message: str) -> None:
    logs = [change(play(world(0), uniform, 1, 0)[0])]
    with pytest.raises(LogError, match=message):
        evaluate(logs, uniform, Chooser())


def test_empty_logs_and_logs_of_one_task_are_refused() -> None:
    with pytest.raises(LogError, match="no logged choices"):
        learn([])
    with pytest.raises(LogError, match="too few tasks"):
        learn([replace(log, group="one") for log in play(world(0), uniform, 20, 0)])
    with pytest.raises(LogError, match="no logged choices"):
        best_single([], Chooser())


def error(turn: int, hints: Sequence[Hint] = (), kind: str = "timeout") -> ErrorTurn:
    return ErrorTurn.model_validate({"turn": turn, "call_index": 0, "kind": kind, "tool": "bash", "hints": hints})


def test_a_chosen_hint_comes_first_and_says_that_it_was_learned() -> None:
    one, two = Hint(text="wait", template="again"), Hint(text="nearer", template="nearest")
    chooser = Chooser(weights={"nearest": {"kind=timeout": 0.5}, "again": {"kind=traceback": 0.5}})
    found = learned(chooser, error(0, [one, two]), [])
    assert [(hint.template, hint.source) for hint in found] == [("nearest", "learned"), ("again", "template")]
    assert learned(chooser, error(0, [one]), []) == [one]


def test_a_choice_is_read_from_a_file_of_a_chooser(tmp_path: Path) -> None:
    one, two = Hint(text="wait", template="again"), Hint(text="nearer", template="nearest")
    file = tmp_path / "chooser.json"
    file.write_text(Chooser(weights={"nearest": {"": 0.5}}).model_dump_json())
    assert [hint.template for hint in choice_from(file)(error(0, [one, two]), [])] == ["nearest", "again"]
