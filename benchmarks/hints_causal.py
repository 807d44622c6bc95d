"""Whether `etude hints causal` finds the truth, where the truth is known.

    python benchmarks/hints_causal.py [--runs N] [--turns N] [--k K] [--json]

The agent ``noisy`` errs, and then solves a drill with one probability, or follows a hint with another: so what a hint
is worth is follows * (1 - solves), also at the errors of drills that refuse a call on purpose. Each run plays other
drills, measures the hint at each of its error turns with ``k`` continuations with it and ``k`` without, and says
whether the 95 % interval covers that truth; so do the intervals of the single error turns. A right interval misses 1
run of 20, so that 18 or more of 20 cover in 92 of 100 times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etude.environments.agents.calibrated import chances
from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.runs.play import run_episodes
from etude.models import Task

AGENTS = ("noisy:0.25,0.6", "noisy:0.1,0.9", "noisy:0.5,0.3", "noisy:0.7,0.0")


class Window(DrillTasks):
    """Drills from ``first`` on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def __iter__(self) -> Iterator[Task]:
        return (self.get_task("train", index) for index in range(self.first, self.first + 1000))


async def measured(seed: int, turns: int, k: int, folder: Path) -> dict[str, Any]:
    agent = AGENTS[seed % len(AGENTS)]
    solves, follows = chances(agent.partition(":")[2])
    truth = follows * (1 - solves)
    out, tasks = folder / str(seed), Window(seed * 1000)
    await run_episodes(tasks, agent, out=out, limit=turns)
    found = await measure_hints(out, agent, k=k, out=out / "hints", seed=seed)
    whole = found.pooled[0].difference
    singles = [score.difference for score in found.hints]
    if not found.ok or whole is None:
        raise SystemExit(f"trials were void: {found.causes}")
    return {
        "seed": seed,
        "agent": agent,
        "truth": truth,
        "found": whole.value,
        "low": whole.low,
        "high": whole.high,
        "covers": truth in whole,
        "single turns": len(singles),
        "of which cover": sum(one is not None and truth in one for one in singles),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.runs):
            row = asyncio.run(measured(seed, options.turns, options.k, Path(folder)))
            rows.append(row)
            if not options.json:
                print(
                    f"seed {seed:2}  {row['agent']:14}  truth {row['truth']:.3f}  found {row['found']:.3f} "
                    f"[{row['low']:.3f}, {row['high']:.3f}]  {'covers' if row['covers'] else 'MISSES'}  "
                    f"single turns: {row['of which cover']} of {row['single turns']}",
                    flush=True,
                )
    covered, single, of = (sum(row[name] for row in rows) for name in ("covers", "of which cover", "single turns"))
    if options.json:
        print(json.dumps({"runs": rows, "covered": covered}, indent=1))
    else:
        print(f"{covered} of {len(rows)} runs cover the truth; {single} of {of} single error turns do")
    return 0 if covered >= 0.9 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
