"""The second question: which source of hints moves the base furthest, per kind of error, and whether that foretells
what is learned from it.

    python research/error_turns/sources.py --out DIR --bases DIR [--world drills|repairs]
    python research/error_turns/sources.py --out DIR --report [--runs FILE,FILE]

The first plays the base ``strong`` and leaves DIR/gaps-WORLD.jsonl; the second reads these, and the counted runs of
``stack.py`` in FILEs for the world of drills.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from etude.errors import RecipeError
from etude.research.error_turns import driver
from etude.research.error_turns.driver import Refused
from etude.research.error_turns.hints import source_gaps
from etude.research.error_turns.hints.source_gaps import LEARNED, MOVED, WRONG, Gap, learned
from etude.research.error_turns.real_stack import runs
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.small_world.language import stream
from etude.research.error_turns.summary import RESAMPLES, TUNING, Row, area, interval, iqm, resampled
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.repair_world import REPAIRS

WORLDS = {"drills": DRILLS, "repairs": REPAIRS}
TASKS, GROUP = 48, 8
LEAST = 10
"""Turns of a kind."""
EVERY = "every kind"
"""Of error, together: a table's last part."""
ARMS = {
    "template": "distill", "raw": "raw_error", "introspection": "introspection", "sibling": "sibling",
    WRONG: "wrong_hint", "nothing": "null_hint",
}  # fmt: skip
"""The arm of ``stack.py`` that learns from each source."""


def measure(options: argparse.Namespace) -> list[Gap]:
    """Return the gaps of the base, in DIR/gaps-WORLD.jsonl. Raises Refused."""
    world, base = WORLDS[options.world], options.bases / "strong"
    if not (base / "config.json").is_file():
        raise Refused(f"--bases {options.bases} holds no strong")
    tasks = world.played(options.tasks)
    try:
        with world.served(options.out, [*tasks, *world.learned(0, world.prompts)]) as url:
            made = runs.made(world, Arm(), 1e-9, 0, base, url, options.out / "playing", 1)
            try:
                found = source_gaps.gaps(made.trainer, tasks, GROUP)
            finally:
                made.trainer.close()
    except RecipeError as error:
        raise Refused(str(error)) from None
    lines = [json.dumps(asdict(gap)) + "\n" for gap in found]
    (options.out / f"gaps-{options.world}.jsonl").write_text("".join(lines), encoding="utf-8")
    return found


def read(path: Path) -> list[Gap]:
    return [Gap(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


# --- how far they move -------------------------------------------------------------------------------------------


def table(found: Sequence[Gap]) -> dict[str, dict[str, Any]]:
    """By kind and source: how many turns, the share with a hint, and the mean of each measure with its interval. Kinds
    of fewer turns than ``LEAST`` have no row of their own, and are in that of ``EVERY`` kind, which comes last. Raises
    Refused when no kind has as many."""
    whole = [*found, *learned(found)]
    turns = Counter(gap.kind for gap in found if gap.source == WRONG)
    kinds = [{kind} for kind, number in turns.most_common() if number >= LEAST]
    if not kinds:
        raise Refused(f"no kind of error has {LEAST} turns: play more --tasks")
    return {
        EVERY if len(some) > 1 else min(some): {
            source: _row([gap for gap in whole if gap.kind in some and gap.source == source]) for source in _sources()
        }
        for some in ([*kinds, set(turns)] if len(turns) > 1 else kinds)
    }


def _sources() -> list[str]:
    return [*(name for name in ARMS if name != "nothing"), LEARNED]


def _row(found: Sequence[Gap]) -> dict[str, Any]:
    told = sum(gap.told for gap in found) / len(found)
    return {"turns": len(found), "told": told, **{name: _mean(found, name) for name in MOVED}}


def _mean(found: Sequence[Gap], name: str) -> tuple[float, float, float]:
    """Over all turns; the interval is of resampled tasks."""
    tasks = sorted({gap.task for gap in found})
    where = {task: number for number, task in enumerate(tasks)}
    sums, counts = torch.zeros(len(tasks), dtype=torch.double), torch.zeros(len(tasks), dtype=torch.double)
    for gap in found:
        sums[where[gap.task]] += getattr(gap, name)
        counts[where[gap.task]] += 1
    drawn = torch.randint(len(tasks), (RESAMPLES, len(tasks)), generator=stream("gaps", name))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    return float(sums.sum() / counts.sum()), *interval(means)


# --- whether that foretells what is learned ----------------------------------------------------------------------


def gain(row: Row) -> float:
    """By how much the error was lower than at the start, on average over the run."""
    return float(row["errors"][0]) - area(row)


def foretold(moved: Mapping[str, Mapping[str, Any]], rows: Sequence[Row]) -> dict[str, Any]:
    """``gains``: of each source that has counted runs. ``correlation``: of each measure's ranks with the gains'
    (Spearman), over sources, with the interval of resampled seeds. Raises Refused for less than three sources."""
    by_arm = {
        source: [row for row in rows if row["arm"] == arm and row["seed"] < TUNING] for source, arm in ARMS.items()
    }
    gains = {source: [gain(row) for row in some] for source, some in by_arm.items() if some}
    if len(gains) < 3:
        raise Refused(f"the runs have {len(gains)} of the arms {', '.join(ARMS.values())}: a rank takes three or more")
    drawn = torch.stack([resampled(values, f"gain {source}") for source, values in gains.items()], 1)
    now = torch.tensor([[float(iqm(torch.tensor(values, dtype=torch.double))) for values in gains.values()]])
    found: dict[str, Any] = {}
    for name in MOVED:
        initial = torch.tensor([moved[source][name][0] if source in moved else 0.0 for source in gains])
        found[name] = float(spearman(initial, now)[0]), *interval(spearman(initial, drawn))
    values = {
        source: (float(value), *interval(column)) for source, value, column in zip(gains, now[0], drawn.T, strict=True)
    }
    return {"gains": values, "correlation": found}


def spearman(one: Tensor, many: Tensor) -> Tensor:
    """Rank correlation of [S] with each row of [N, S]; equals have the mean of their ranks. Four decimals count:
    the rows' errors are rounded, and one episode of one run weighs more."""
    ranks = [_ranks(each.double().round(decimals=4)) for each in (one.expand_as(many), many)]
    centred = [rank - rank.mean(-1, keepdim=True) for rank in ranks]
    return (centred[0] * centred[1]).sum(-1) / (centred[0].norm(dim=-1) * centred[1].norm(dim=-1))


def _ranks(values: Tensor) -> Tensor:
    mine, others = values.unsqueeze(-1), values.unsqueeze(-2)
    return ((others < mine).sum(-1) + ((others == mine).sum(-1) - 1) / 2).double()


# --- the command -------------------------------------------------------------------------------------------------


def report(options: argparse.Namespace) -> None:
    found: dict[str, Any] = {}
    for name in WORLDS:
        if (path := options.out / f"gaps-{name}.jsonl").is_file():
            found[name] = table(read(path))
            show(name, found[name])
    if not found:
        raise Refused(f"{options.out} holds no gaps yet: measure them first")
    if missing := [path for path in options.runs if not path.is_file()]:
        raise Refused(f"--runs: there is no {missing[0]}")
    rows = [row for path in options.runs for row in driver.load(path)]
    if rows and "drills" in found:
        kind = next(iter(found["drills"]))
        found["foretold"] = foretold(found["drills"][kind], rows)
        show_foretold(found["foretold"])
    (options.out / "sources.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def show(world: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    for kind, rows in found.items():
        print(f"{world}, {kind}: {next(iter(rows.values()))['turns']} turns")
        print(f"  {'source':14} {'hinted':>6}  " + "".join(f"{name:24}" for name in MOVED))
        for source, row in rows.items():
            parts = ["{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[name]) for name in MOVED]
            print(f"  {source:14} {row['told']:6.2f}  " + "".join(f"{part:24}" for part in parts))


def show_foretold(found: Mapping[str, Any]) -> None:
    print("what was learned: the error's mean fall over a run")
    for source, each in found["gains"].items():
        print("  {:14} {:+.3f} [{:+.3f}, {:+.3f}]".format(source, *each))
    print("rank correlation with it")
    for name, each in found["correlation"].items():
        print("  {:14} {:+.2f} [{:+.2f}, {:+.2f}]".format(name, *each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bases", type=Path, help="a folder that holds strong")
    parser.add_argument("--world", choices=WORLDS, default="drills")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"of {GROUP} episodes each")
    parser.add_argument("--report", action="store_true", help="of what is there; plays nothing")
    parser.add_argument("--runs", type=lambda text: [Path(each) for each in text.split(",")], default=[])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.report:
        report(options)
    elif options.bases is None:
        raise Refused("--bases: say where the bases are")
    else:
        show(options.world, table(measure(options)))


if __name__ == "__main__":
    sys.exit(driver.status(main))
