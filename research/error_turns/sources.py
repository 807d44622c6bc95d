"""Which source of hints moves the base furthest for each kind of error, and whether that predicts what is learned.

    python research/error_turns/sources.py --out DIR --bases DIR [--world drills|repairs]
    python research/error_turns/sources.py --out DIR --report [--runs FILE,FILE]

The first command plays the base ``strong`` and writes DIR/gaps-WORLD.jsonl. The second reads these files, and for the
world of drills the counted runs of ``stack.py`` in the FILEs.
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
from etude.research.error_turns.summary import RESAMPLES, TUNING, Row, area, interval, mean_of, resampled
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.research.error_turns.worlds.repair_world import REPAIRS

WORLDS = {"drills": DRILLS, "repairs": REPAIRS}
TASKS, GROUP = 48, 8
LEAST = 10
"""Least number of turns of a kind of error with a row of its own."""
EVERY = "every kind"
"""Last part of a table: all kinds of error together."""
ARMS = {
    "template": "distill", "raw": "raw_error", "introspection": "introspection", "sibling": "sibling",
    WRONG: "wrong_hint", "nothing": "null_hint",
}  # fmt: skip
"""The arm of ``stack.py`` that learns from each source."""


def measure(options: argparse.Namespace) -> list[Gap]:
    """Measure the gaps of the base, write them to DIR/gaps-WORLD.jsonl and return them. Raises Refused."""
    world, base = WORLDS[options.world], options.bases / "strong"
    if not (base / "config.json").is_file():
        raise Refused(f"--bases {options.bases} holds no strong")
    tasks = world.played(options.tasks)
    try:
        with world.served(options.out, [*tasks, *world.learned(0, world.prompts)]) as url:
            trainer = runs.build_run(world, Arm(), 1e-9, 0, base, url, options.out / "playing", 1).trainer
            try:
                gaps = source_gaps.gaps(trainer, tasks, GROUP)
            finally:
                trainer.close()
    except RecipeError as error:
        raise Refused(str(error)) from None
    lines = [json.dumps(asdict(gap)) + "\n" for gap in gaps]
    (options.out / f"gaps-{options.world}.jsonl").write_text("".join(lines), encoding="utf-8")
    return gaps


def read(path: Path) -> list[Gap]:
    """Return the gaps in a file."""
    return [Gap(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


# --- the gaps of each source -------------------------------------------------------------------------------------


def table(gaps: Sequence[Gap]) -> dict[str, dict[str, Any]]:
    """Return, by kind of error and source, the number of turns, the share with a hint, and the means of the measures.

    A kind with fewer turns than ``LEAST`` counts only under ``EVERY`` kind, which comes last. Raises Refused when no
    kind has enough turns.
    """
    all_gaps = [*gaps, *learned(gaps)]
    turns = Counter(gap.kind for gap in gaps if gap.source == WRONG)
    frequent = [{kind} for kind, number in turns.most_common() if number >= LEAST]
    if not frequent:
        raise Refused(f"no kind of error has {LEAST} turns: play more --tasks")
    return {
        EVERY if len(kinds) > 1 else min(kinds): {
            source: _row([gap for gap in all_gaps if gap.kind in kinds and gap.source == source])
            for source in _sources()
        }
        for kinds in ([*frequent, set(turns)] if len(turns) > 1 else frequent)
    }


def _sources() -> list[str]:
    return [*(name for name in ARMS if name != "nothing"), LEARNED]


def _row(gaps: Sequence[Gap]) -> dict[str, Any]:
    hinted_share = sum(gap.told for gap in gaps) / len(gaps)
    return {"turns": len(gaps), "told": hinted_share, **{name: _mean(gaps, name) for name in MOVED}}


def _mean(gaps: Sequence[Gap], name: str) -> tuple[float, float, float]:
    """Return the mean of a measure over all turns, with its interval by the bootstrap over tasks."""
    tasks = sorted({gap.task for gap in gaps})
    numbers = {task: number for number, task in enumerate(tasks)}
    sums, counts = torch.zeros(len(tasks), dtype=torch.double), torch.zeros(len(tasks), dtype=torch.double)
    for gap in gaps:
        sums[numbers[gap.task]] += getattr(gap, name)
        counts[numbers[gap.task]] += 1
    drawn = torch.randint(len(tasks), (RESAMPLES, len(tasks)), generator=stream("gaps", name))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    return float(sums.sum() / counts.sum()), *interval(means)


# --- the gaps as predictions of what is learned ------------------------------------------------------------------


def gain(row: Row) -> float:
    """Return how much lower the error was than at the start, averaged over the run."""
    return float(row["errors"][0]) - area(row)


def foretold(moved: Mapping[str, Mapping[str, Any]], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the gains of each source with counted runs, and the rank correlation of each measure with the gains.

    The correlation is Spearman's over sources, with its interval by the bootstrap over seeds. Raises Refused for fewer
    than three sources.
    """
    by_source = {
        source: [row for row in rows if row["arm"] == arm and row["seed"] < TUNING] for source, arm in ARMS.items()
    }
    gains = {source: [gain(row) for row in arm_rows] for source, arm_rows in by_source.items() if arm_rows}
    if len(gains) < 3:
        raise Refused(f"the runs have {len(gains)} of the arms {', '.join(ARMS.values())}: a rank takes three or more")
    drawn = torch.stack([resampled(values, f"gain {source}") for source, values in gains.items()], 1)
    means = torch.tensor([[mean_of(values) for values in gains.values()]])
    correlation: dict[str, Any] = {}
    for name in MOVED:
        initial = torch.tensor([moved[source][name][0] if source in moved else 0.0 for source in gains])
        correlation[name] = float(spearman(initial, means)[0]), *interval(spearman(initial, drawn))
    columns = zip(gains, means[0], drawn.T, strict=True)
    values = {source: (float(value), *interval(column)) for source, value, column in columns}
    return {"gains": values, "correlation": correlation}


def spearman(one: Tensor, many: Tensor) -> Tensor:
    """Return the rank correlation of [S] with each row of [N, S]; equal values share the mean of their ranks.

    Values are rounded to four decimals, because the rows' errors are rounded, and one episode of one run weighs more.
    """
    ranks = [_ranks(values.double().round(decimals=4)) for values in (one.expand_as(many), many)]
    centred = [rank - rank.mean(-1, keepdim=True) for rank in ranks]
    return (centred[0] * centred[1]).sum(-1) / (centred[0].norm(dim=-1) * centred[1].norm(dim=-1))


def _ranks(values: Tensor) -> Tensor:
    value, others = values.unsqueeze(-1), values.unsqueeze(-2)
    return ((others < value).sum(-1) + ((others == value).sum(-1) - 1) / 2).double()


# --- the command -------------------------------------------------------------------------------------------------


def report(options: argparse.Namespace) -> None:
    """Print the tables of the measured gaps and write them to DIR/sources.json. Raises Refused."""
    tables: dict[str, Any] = {}
    for name in WORLDS:
        if (path := options.out / f"gaps-{name}.jsonl").is_file():
            tables[name] = table(read(path))
            show(name, tables[name])
    if not tables:
        raise Refused(f"{options.out} holds no gaps yet: measure them first")
    if missing := [path for path in options.runs if not path.is_file()]:
        raise Refused(f"--runs: there is no {missing[0]}")
    rows = [row for path in options.runs for row in driver.load(path)]
    if rows and "drills" in tables:
        kind = next(iter(tables["drills"]))
        tables["foretold"] = foretold(tables["drills"][kind], rows)
        show_foretold(tables["foretold"])
    (options.out / "sources.json").write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def show(world: str, kinds: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table of a world."""
    for kind, rows in kinds.items():
        print(f"{world}, {kind}: {next(iter(rows.values()))['turns']} turns")
        print(f"  {'source':14} {'hinted':>6}  " + "".join(f"{name:24}" for name in MOVED))
        for source, row in rows.items():
            parts = ["{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[name]) for name in MOVED]
            print(f"  {source:14} {row['told']:6.2f}  " + "".join(f"{part:24}" for part in parts))


def show_foretold(result: Mapping[str, Any]) -> None:
    """Print the gains of the sources, and the rank correlation of the measures with them."""
    print("what was learned: the error's mean fall over a run")
    for source, numbers in result["gains"].items():
        print("  {:14} {:+.3f} [{:+.3f}, {:+.3f}]".format(source, *numbers))
    print("rank correlation with it")
    for name, numbers in result["correlation"].items():
        print("  {:14} {:+.2f} [{:+.2f}, {:+.2f}]".format(name, *numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bases", type=Path, help="Folder with the base strong.")
    parser.add_argument("--world", choices=WORLDS, default="drills")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"Tasks to play, {GROUP} episodes of each.")
    parser.add_argument("--report", action="store_true", help="Only report the gaps so far.")
    parser.add_argument("--runs", type=lambda text: [Path(name) for name in text.split(",")], default=[])
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
