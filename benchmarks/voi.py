"""What asking teachers costs and brings, in a simulated world: all turns, a random part, by value, by value in tiers.

    python benchmarks/voi.py [--seeds N] [--json]

The value of a pair is that of correcting the student: +1 when the right action is chosen over the student's wrong one,
-1 whenever the rejected action is the right one, else 0 (trainers/replay/simulator.py, which uses the code that decides
for real); one world counts +1, too, for a right action of the student over a teacher's failed one. Teachers are
right with .9, .85 and .8; prices are those of a large, a middle and a small model, and, once, equal. The student's
errors depend on the context, which the gate sees but does not know the rates of; it learns them while it asks, and what
it spends on learning counts.

Each way of asking has one knob (the share asked; what a right pair is worth in dollars). It is turned on the first
seeds, where the cheapest setting with at least 92 % of the value of asking about all turns is picked, and reported on
other seeds: so the points of the table were not picked where they are counted. Intervals are 95 %, by the bootstrap
over seeds. "x cheaper" is the cost of asking all three teachers about all turns over the cost of this way.
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

from etude.trainers.replay.ask_policy import total_if_all
from etude.trainers.replay.settings import Consensus, GateSettings
from etude.trainers.replay.simulator import Context, Outcome, SimulatedTeacher, World, majority, run, turns

EPISODES, LENGTH = 12, 50
TUNING, FIRST_COUNTED = range(8), 5000
WANTED, CHEAPER, SLACK = 0.90, 3.0, 0.92
ACCURACIES = (0.9, 0.85, 0.8)
SPREAD = tuple(map(SimulatedTeacher, ("large", "middle", "small"), ACCURACIES, (0.013, 0.005, 0.002)))
EQUAL = tuple(map(SimulatedTeacher, ("a", "b", "c"), ACCURACIES, (0.02 / 3,) * 3))
MIXED = (Context("read", 0.6, 0.05), Context("edit", 0.25, 0.25), Context("run", 0.15, 0.5))
FLAT = (Context("any", 1.0, 0.2),)
WEAK = (Context("read", 0.5, 0.4), Context("edit", 0.5, 0.6))
WORLDS: dict[str, World] = {
    "reference": World(SPREAD, MIXED),
    "equal prices": World(EQUAL, MIXED),
    "errors unseen": World(SPREAD, MIXED, seen=0.0),
    "unpredictable": World(SPREAD, FLAT, seen=0.0),
    "hard turns": World(SPREAD, MIXED, hard=0.2),
    "weak student": World(SPREAD, WEAK),
    "no execution": World(SPREAD, MIXED, executes=False),
    "kept count 1": World(SPREAD, MIXED, kept=1.0),
    "two of three": World(SPREAD, MIXED),
}
RULES = {"two of three": Consensus(margin=1 / 3)}
"""Of other worlds, the default: with three answers of equal weight its margin asks for all three."""
RATES = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95)
WORTHS = (0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0, 2.0)
WAYS: dict[str, tuple[Callable[[float], dict[str, Any]], Sequence[float]]] = {
    "random": (lambda x: {"which": "random", "rate": x, "tiers": False}, RATES),
    "voi": (lambda x: {"which": "voi", "worth": x, "tiers": False}, WORTHS),
    "voi + tiers": (lambda x: {"which": "voi", "worth": x, "tiers": True}, WORTHS),
    "tiers alone": (lambda x: {"which": "all", "tiers": True}, (0.0,)),
}


@dataclass(frozen=True)
class Point:
    """One way of asking at one setting: a run for each seed."""

    knob: float
    usd: tuple[float, ...]
    value: tuple[float, ...]
    wrong: tuple[float, ...]

    def against(self, everything: Point, part: Sequence[int] | None = None) -> tuple[float, float]:
        """The share of all turns' value, and how many times cheaper."""
        which = range(len(self.usd)) if part is None else part
        value, usd, all_value, all_usd = (
            sum(column[i] for i in which) for column in (self.value, self.usd, everything.value, everything.usd)
        )
        return value / all_value, all_usd / usd


def measure(name: str, options: dict[str, Any], knob: float, seeds: Sequence[int]) -> tuple[Point, list[Outcome]]:
    world, done = WORLDS[name], []
    for seed in seeds:
        played = list(turns(world, EPISODES, LENGTH, seed))
        done.append(run(world, played, GateSettings(**options, seed=seed), RULES.get(name, Consensus())))
    usd, value, wrong = (tuple(float(getattr(each, name)) for each in done) for name in ("usd", "value", "wrong"))
    return Point(knob, usd, value, wrong), done


def interval(point: Point, everything: Point, draws: int = 2000) -> list[tuple[float, float, float]]:
    """Share of the value and times cheaper, each with its 95 % interval."""
    chance, size = random.Random(0), len(point.usd)
    drawn = [point.against(everything, chance.choices(range(size), k=size)) for _ in range(draws)]
    found = []
    for which, here in enumerate(point.against(everything)):
        column = sorted(each[which] for each in drawn)
        found.append((here, column[math.floor(0.025 * (draws - 1))], column[math.ceil(0.975 * (draws - 1))]))
    return found


def picked(curve: Sequence[Point], everything: Point) -> Point:
    """The cheapest with enough value; the one with most value when none has."""
    enough = [point for point in curve if point.against(everything)[0] >= SLACK]
    if enough:
        return max(enough, key=lambda point: point.against(everything)[1])
    return max(curve, key=lambda point: point.against(everything)[0])


def rows_of(name: str, counted: Sequence[int]) -> list[dict[str, Any]]:
    everything = {"which": "all", "tiers": False}
    tuned, _ = measure(name, everything, 0, TUNING)
    whole, _ = measure(name, everything, 0, counted)
    rows = [_row(name, "all turns", whole, whole)]
    for way, (options, knobs) in WAYS.items():
        curve = [measure(name, options(knob), knob, TUNING)[0] for knob in knobs]
        best = picked(curve, tuned)
        point, done = measure(name, options(best.knob), best.knob, counted)
        row = _row(name, way, point, whole)
        row["curve"] = [{"knob": p.knob, "value": p.against(tuned)[0], "cheaper": p.against(tuned)[1]} for p in curve]
        estimates = [total_if_all(each.brought, draws=1).value for each in done]
        full = run_all(name, options(best.knob), counted)
        row["ipw"] = {"estimate": statistics.mean(estimates), "truth": full}
        rows.append(row)
    return rows


def run_all(name: str, options: dict[str, Any], seeds: Sequence[int]) -> float:
    """What the same tiers would have brought, asked about all turns: what the propensities are to estimate."""
    point, _ = measure(name, {**options, "which": "all"}, 0, seeds)
    return statistics.mean(point.value)


def _row(name: str, way: str, point: Point, whole: Point) -> dict[str, Any]:
    (share, *share_ends), (cheaper, *cheaper_ends) = interval(point, whole)
    return {
        "world": name,
        "way": way,
        "knob": point.knob,
        "usd": statistics.mean(point.usd),
        "value": statistics.mean(point.value),
        "wrong": statistics.mean(point.wrong),
        "share": share,
        "share_interval": share_ends,
        "cheaper": cheaper,
        "cheaper_interval": cheaper_ends,
        "usd_per_value": sum(point.usd) / max(sum(point.value), 1e-9),
        "met": cheaper_ends[0] >= CHEAPER and share_ends[0] >= WANTED,
    }


def shown(row: dict[str, Any]) -> str:
    share, cheaper = row["share_interval"], row["cheaper_interval"]
    return (
        f"{row['world']:<14} {row['way']:<12} {row['knob']:>5g} {row['usd']:>7.2f} {row['value']:>7.1f} "
        f"{row['wrong']:>5.1f}  {row['share']:5.2f} [{share[0]:.2f}, {share[1]:.2f}]  {row['cheaper']:5.2f} "
        f"[{cheaper[0]:.2f}, {cheaper[1]:.2f}]  {row['usd_per_value']:.4f}  {'yes' if row['met'] else 'no'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="counted seeds")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--first", type=int, default=FIRST_COUNTED, help="the first of them")
    given = parser.parse_args()
    counted = range(given.first, given.first + given.seeds)
    if not given.json:
        print(
            f"majority of {ACCURACIES}: {majority(ACCURACIES):.3f}; {EPISODES * LENGTH} turns a run, {given.seeds} runs"
        )
        print(
            "world          way           knob     USD   value wrong  share of value"
            "      x cheaper           USD/value  met"
        )
    rows = []
    for name in given.worlds:
        for row in rows_of(name, counted):
            rows.append(row)
            if not given.json:
                print(shown(row), flush=True)
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            if row["way"] in ("voi", "voi + tiers"):
                print(
                    f"{row['world']}, {row['way']}: all turns would bring {row['ipw']['truth']:.1f}, "
                    f"estimated {row['ipw']['estimate']:.1f}; curve "
                    + ", ".join(f"{p['knob']:g}: {p['value']:.2f} at {p['cheaper']:.1f}x" for p in row["curve"])
                )


if __name__ == "__main__":
    main()
