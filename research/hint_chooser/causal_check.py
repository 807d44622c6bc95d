"""Test whether `etude hints causal` finds the effect of a hint where that effect is known.

    python -m etude.research.hint_chooser.causal_check [--runs N] [--turns N] [--k K] [--json]

The agent ``noisy`` errs, and then solves a drill with one probability, or follows a hint with another. So the effect
of a hint is follows * (1 - solves), also at the errors of drills that refuse a call on purpose. Each run plays other
drills and measures the hint at each error turn with ``k`` continuations with it and ``k`` without it. The test counts
how often the 95 % interval covers the known effect, for whole runs and for single error turns. A right interval misses
1 run of 20, so that 18 or more of 20 cover it in 92 of 100 cases.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from etude.environments.agents.calibrated import chances
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.runs.play import run_episodes
from etude.research.hint_chooser.worlds import Window

AGENTS = ("noisy:0.25,0.6", "noisy:0.1,0.9", "noisy:0.5,0.3", "noisy:0.7,0.0")


async def measured(seed: int, turns: int, k: int, folder: Path) -> dict[str, Any]:
    """Play one run, measure its hints, and return whether the intervals cover the known effect."""
    agent = AGENTS[seed % len(AGENTS)]
    solves, follows = chances(agent.partition(":")[2])
    truth = follows * (1 - solves)
    out, tasks = folder / str(seed), Window("train", seed * 1000)
    await run_episodes(tasks, agent, out=out, limit=turns)
    report = await measure_hints(out, agent, k=k, out=out / "hints", seed=seed)
    pooled = report.pooled[0].difference
    singles = [score.difference for score in report.hints]
    if not report.ok or pooled is None:
        raise SystemExit(f"trials were void: {report.causes}")
    return {
        "seed": seed,
        "agent": agent,
        "truth": truth,
        "found": pooled.value,
        "low": pooled.low,
        "high": pooled.high,
        "covers": truth in pooled,
        "single turns": len(singles),
        "of which cover": sum(single is not None and truth in single for single in singles),
    }


def main() -> int:
    """Run the test; return 0 when at least 90 % of the intervals cover the known effect."""
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
