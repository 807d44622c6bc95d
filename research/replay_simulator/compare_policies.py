"""Cost and value of four policies for asking teachers, in nine simulated worlds.

    python research/replay_simulator/compare_policies.py [--seeds N] [--worlds NAME ...] [--json]

| policy | which turns it asks about | which teachers it asks there |
|---|---|---|
| random | a random share | all three |
| voi | where the expected value of asking exceeds its cost | all three |
| voi + tiers | as voi | the cheapest first, until the answer is clear |
| tiers alone | all | the cheapest first, until the answer is clear |

``simulator.py`` defines the value of a pair; one world also counts +1 for a right action of the student that is
preferred to a teacher's failed one. Teachers are right with probability 0.9, 0.85 and 0.8; prices are those of a large,
a middle and a small model, and equal in one world. The student's errors depend on the context. The gate sees the
context but does not know its error rate: it learns the rate while it asks, and what it spends on learning counts.

Each policy has one setting (the share asked, or the value of a right pair in dollars). It is chosen on the tuning
seeds, as the cheapest one with at least 92 % of the value of asking about all turns, and reported on other seeds.
Intervals are 95 %, by the bootstrap over seeds. "x cheaper" is the cost of asking all three teachers about all turns
divided by the cost of the policy.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from etude.research.replay_simulator.simulator import (
    Context,
    Outcome,
    SimulatedTeacher,
    World,
    majority,
    run,
    turns,
)
from etude.trainers.replay.ask_policy import total_if_all
from etude.trainers.replay.settings import Consensus, GateSettings

EPISODES, LENGTH = 12, 50
TUNING, FIRST_COUNTED = range(8), 5000
VALUE_GOAL, CHEAPER_GOAL, TUNING_GOAL = 0.90, 3.0, 0.92
ACCURACIES = (0.9, 0.85, 0.8)
SPREAD = tuple(map(SimulatedTeacher, ("large", "middle", "small"), ACCURACIES, (0.013, 0.005, 0.002)))
EQUAL = tuple(map(SimulatedTeacher, ("a", "b", "c"), ACCURACIES, (0.02 / 3,) * 3))
MIXED = (Context("read", 0.6, 0.05), Context("edit", 0.25, 0.25), Context("run", 0.15, 0.5))
FLAT = (Context("any", 1.0, 0.2),)
WEAK = (Context("read", 0.5, 0.4), Context("edit", 0.5, 0.6))
WORLDS: dict[str, World] = {
    "reference": World(SPREAD, MIXED),
    "equal prices": World(EQUAL, MIXED),
    "errors unseen": World(SPREAD, MIXED, reported=0.0),
    "unpredictable": World(SPREAD, FLAT, reported=0.0),
    "hard turns": World(SPREAD, MIXED, hard=0.2),
    "weak student": World(SPREAD, WEAK),
    "no execution": World(SPREAD, MIXED, executes=False),
    "kept count 1": World(SPREAD, MIXED, confirmation_value=1.0),
    "two of three": World(SPREAD, MIXED),
}
RULES = {"two of three": Consensus(margin=1 / 3)}
"""Consensus rules by world; the other worlds use the default, whose margin needs three equal votes of three."""
RATES = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95)
WORTHS = (0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0, 2.0)
POLICIES: dict[str, tuple[Callable[[float], dict[str, Any]], Sequence[float]]] = {
    "random": (lambda x: {"which": "random", "rate": x, "tiers": False}, RATES),
    "voi": (lambda x: {"which": "voi", "worth": x, "tiers": False}, WORTHS),
    "voi + tiers": (lambda x: {"which": "voi", "worth": x, "tiers": True}, WORTHS),
    "tiers alone": (lambda x: {"which": "all", "tiers": True}, (0.0,)),
}


@dataclass(frozen=True)
class Point:
    """One policy at one setting: cost, value and number of wrong pairs of each seed's run."""

    knob: float
    usd: tuple[float, ...]
    value: tuple[float, ...]
    wrong: tuple[float, ...]

    def against(self, all_turns: Point, seeds: Sequence[int] | None = None) -> tuple[float, float]:
        """Return the share of the value of asking about all turns, and how many times cheaper this point is."""
        chosen = range(len(self.usd)) if seeds is None else seeds
        value, usd, all_value, all_usd = (
            sum(column[i] for i in chosen) for column in (self.value, self.usd, all_turns.value, all_turns.usd)
        )
        return value / all_value, all_usd / usd


def measure(name: str, options: dict[str, Any], knob: float, seeds: Sequence[int]) -> tuple[Point, list[Outcome]]:
    """Run the world ``name`` once per seed with these gate settings."""
    world, outcomes = WORLDS[name], []
    for seed in seeds:
        played = list(turns(world, EPISODES, LENGTH, seed))
        outcomes.append(run(world, played, GateSettings(**options, seed=seed), RULES.get(name, Consensus())))
    usd, value, wrong = (
        tuple(float(getattr(outcome, key)) for outcome in outcomes) for key in ("usd", "value", "wrong")
    )
    return Point(knob, usd, value, wrong), outcomes


def interval(point: Point, all_turns: Point, draws: int = 2000) -> list[tuple[float, float, float]]:
    """Return the share of the value and "times cheaper", each as (estimate, low, high) of its 95 % interval."""
    rng, size = random.Random(0), len(point.usd)
    drawn = [point.against(all_turns, rng.choices(range(size), k=size)) for _ in range(draws)]
    intervals = []
    for number, estimate in enumerate(point.against(all_turns)):
        column = sorted(sample[number] for sample in drawn)
        low, high = column[math.floor(0.025 * (draws - 1))], column[math.ceil(0.975 * (draws - 1))]
        intervals.append((estimate, low, high))
    return intervals


def choose_setting(curve: Sequence[Point], all_turns: Point) -> Point:
    """Return the cheapest point with enough value, or the one with most value when none has enough."""
    enough = [point for point in curve if point.against(all_turns)[0] >= TUNING_GOAL]
    if enough:
        return max(enough, key=lambda point: point.against(all_turns)[1])
    return max(curve, key=lambda point: point.against(all_turns)[0])


def rows_of(name: str, counted: Sequence[int]) -> list[dict[str, Any]]:
    """Return one row for asking about all turns, and one for each policy at its chosen setting."""
    all_options = {"which": "all", "tiers": False}
    tuning, _ = measure(name, all_options, 0, TUNING)
    all_turns, _ = measure(name, all_options, 0, counted)
    rows = [_row(name, "all turns", all_turns, all_turns)]
    for policy, (options, knobs) in POLICIES.items():
        curve = [measure(name, options(knob), knob, TUNING)[0] for knob in knobs]
        best = choose_setting(curve, tuning)
        point, outcomes = measure(name, options(best.knob), best.knob, counted)
        row = _row(name, policy, point, all_turns)
        row["curve"] = [{"knob": p.knob, "value": p.against(tuning)[0], "cheaper": p.against(tuning)[1]} for p in curve]
        estimates = [total_if_all(outcome.contributions, draws=1).value for outcome in outcomes]
        truth = value_of_all_turns(name, options(best.knob), counted)
        row["ipw"] = {"estimate": statistics.mean(estimates), "truth": truth}
        rows.append(row)
    return rows


def value_of_all_turns(name: str, options: dict[str, Any], seeds: Sequence[int]) -> float:
    """Return the mean value when every turn is asked about with the same tiers; the propensities estimate this."""
    point, _ = measure(name, {**options, "which": "all"}, 0, seeds)
    return statistics.mean(point.value)


def _row(name: str, policy: str, point: Point, all_turns: Point) -> dict[str, Any]:
    (share, *share_ends), (cheaper, *cheaper_ends) = interval(point, all_turns)
    return {
        "world": name,
        "way": policy,
        "knob": point.knob,
        "usd": statistics.mean(point.usd),
        "value": statistics.mean(point.value),
        "wrong": statistics.mean(point.wrong),
        "share": share,
        "share_interval": share_ends,
        "cheaper": cheaper,
        "cheaper_interval": cheaper_ends,
        "usd_per_value": sum(point.usd) / max(sum(point.value), 1e-9),
        "met": cheaper_ends[0] >= CHEAPER_GOAL and share_ends[0] >= VALUE_GOAL,
    }


def text_row(row: dict[str, Any]) -> str:
    """Return a row as a line of the printed table."""
    share, cheaper = row["share_interval"], row["cheaper_interval"]
    return (
        f"{row['world']:<14} {row['way']:<12} {row['knob']:>5g} {row['usd']:>7.2f} {row['value']:>7.1f} "
        f"{row['wrong']:>5.1f}  {row['share']:5.2f} [{share[0]:.2f}, {share[1]:.2f}]  {row['cheaper']:5.2f} "
        f"[{cheaper[0]:.2f}, {cheaper[1]:.2f}]  {row['usd_per_value']:.4f}  {'yes' if row['met'] else 'no'}"
    )


def text_curve(row: dict[str, Any]) -> str:
    """Return the propensity estimate of a policy and its curve over the tuning seeds as a line of text."""
    points = ", ".join(f"{p['knob']:g}: {p['value']:.2f} at {p['cheaper']:.1f}x" for p in row["curve"])
    return (
        f"{row['world']}, {row['way']}: all turns would bring {row['ipw']['truth']:.1f}, "
        f"estimated {row['ipw']['estimate']:.1f}; curve {points}"
    )


def main() -> None:
    """Measure the chosen worlds and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="Number of counted seeds.")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS), help="Worlds to measure.")
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument("--first", type=int, default=FIRST_COUNTED, help="First counted seed.")
    arguments = parser.parse_args()
    counted = range(arguments.first, arguments.first + arguments.seeds)
    if not arguments.json:
        accuracy, size = majority(ACCURACIES), EPISODES * LENGTH
        print(f"majority of {ACCURACIES}: {accuracy:.3f}; {size} turns a run, {arguments.seeds} runs")
        print(
            "world          way           knob     USD   value wrong  share of value"
            "      x cheaper           USD/value  met"
        )
    rows = []
    for name in arguments.worlds:
        for row in rows_of(name, counted):
            rows.append(row)
            if not arguments.json:
                print(text_row(row), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        if row["way"] in ("voi", "voi + tiers"):
            print(text_curve(row))


if __name__ == "__main__":
    main()
