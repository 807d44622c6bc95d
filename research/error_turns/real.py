"""The combined loss on mutation tasks of a real package, as registered in PREREGISTERED_REAL.md.

    python research/error_turns/real.py --out FILE --work FOLDER [--seeds 5] [--only tasks|base]
    python research/error_turns/real.py --out FILE --print

The first command downloads the packages, makes the tasks with ``etude generate`` and the base, and then the missing
runs, seed by seed. Rows go to ``--out``; a run that is there is not made again. ``--only tasks`` plays the scripted
solution on every task and stops, ``--only base`` stops after the evaluation of the base.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from etude.environments.coding.session import CodingSession
from etude.environments.running import Budget
from etude.environments.tasks.task_set import TaskSet
from etude.research.error_turns.driver import Refused, Run, append, check_same_setup, load, status
from etude.research.error_turns.next_step import by_seed, norm, reading
from etude.research.error_turns.real_stack import base_models, runs
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.worlds.real_dialogues import TOOLS
from etude.research.error_turns.worlds.real_world import TURNS, Real, outcome, world
from etude.research.error_turns.worlds.world import World
from etude.research.muon_rl.compare import T_95, Measure, Row, final, interval, over_run, paired, share
from etude.research.muon_rl.compare import table_head as head
from etude.research.muon_rl.compare import table_row as line

ARMS = ("grpo_sparse", "distill", "sparse_tenth")
RATE = 3e-4
"""Learning rate of all arms."""
MEASURES: dict[str, Measure] = {
    "solved, end": final("solved"),
    "solved, mean of run": over_run("solved"),
    "turns that err, end": final("turns"),
    "turns that err, mean of run": over_run("turns"),
}
CONTRASTS = {
    "R1": ("sparse_tenth", "grpo_sparse", "solved, end"),
    "R2": ("sparse_tenth", "distill", "solved, end"),
    "R3": ("distill", "grpo_sparse", "solved, end"),
    "R4": ("sparse_tenth", "grpo_sparse", "turns that err, mean of run"),
    "R5": ("sparse_tenth", "distill", "turns that err, mean of run"),
}


def make_runs(rows: list[Row], options: argparse.Namespace) -> None:
    """Make the missing runs, seed by seed. Raises Refused when the base is not that of the rows."""
    torch.set_num_threads(1)
    played = world(options.work)
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * played.held))
    base = base_models.base(played, "strong", options.work / "bases")
    check_same_setup(rows, {"strong": base_models.digest(base)}, played.updates)
    with played.served(options.work, []) as url:
        show_base(played, base, url, options.work)
        done = {(row["arm"], row["seed"]) for row in rows}
        for seed in range(1, options.seeds + 1) if options.only is None else ():
            for arm in ARMS:
                if (arm, seed) not in done:
                    made = runs.train(played, Run(arm, RATE, seed), base, url, options.work, updates=played.updates)
                    rows.append(made)
                    append(options.out, made)
                    print(arm, seed, *(f"{measure(made):.3f}" for measure in MEASURES.values()), flush=True)


def show_tasks(folder: Path) -> None:
    """Play the scripted solution on every task, and print how many it solves."""
    real = Real(folder)
    rewards = asyncio.run(solved_by_script(real))
    print(line(["tasks", "functions", "solved by the script", "held out", "to learn from"]))
    functions = {played.case.function for played in real.by_id.values()}
    sizes = (len(rewards), len(functions), sum(reward >= 1 for reward in rewards))
    print(line([str(size) for size in (*sizes, len(real.names(held=True)), len(real.names(held=False)))]))


async def solved_by_script(real: Real) -> list[float]:
    """Return the reward of the scripted solution of each task, played in the strongest sandbox that works here."""
    rewards, tasks, knows = [], TaskSet.load(real.folder / "tasks"), real.knows()
    for task_id in real.by_id:
        session, turns = CodingSession(tasks, budget=Budget(turns=TURNS), tools=TOOLS), list[Row]()
        await session.reset(task_id=task_id)
        while session.episode().end is None:
            name, arguments = knows.right(task_id, turns)
            turns.append({"tool_calls": [{"function": {"name": name, "arguments": json.dumps(arguments)}}]})
            await session.step({"tool_calls": [{"id": "call", "name": name, "arguments": arguments}]})
        reward = session.episode().reward
        await session.close()
        if reward is None or not reward.valid:
            raise Refused(f"the grading of {task_id} failed: `etude doctor` says what this machine lacks")
        rewards.append(reward.value)
    return rewards


def show_base(played: World, base: Path, url: str, folder: Path) -> None:
    """Play the held-out tasks once more with the base, and print the shares and how the episodes ended."""
    tasks = Real(folder).by_id
    trainer = runs.build_run(played, Arm(), 1e-9, 0, base, url, folder / "runs" / "base", 1).trainer
    try:
        first, second, rollouts = runs.evaluated(trainer)
    finally:
        trainer.close()
    ends = Counter(outcome(rollout, tasks[rollout.task_id].case) for rollout in rollouts)
    print(f"base, first play: {first}\nbase, second play: {second}\nends of the first play: {dict(ends)}", flush=True)


def show(rows: Sequence[Row]) -> None:
    """Print the measures of all arms, the contrasts, the curves and the seeds that all arms have."""
    arms = {arm: by_seed([row for row in rows if row["arm"] == arm]) for arm in ARMS}
    seeds = set.intersection(*({row["seed"] for row in arm_rows} for arm_rows in arms.values()))
    arms = {arm: [row for row in arm_rows if row["seed"] in seeds] for arm, arm_rows in arms.items()}
    if len(seeds) < 2:
        raise Refused("fewer than two seeds have all arms: make the runs first")
    print(head(["arm", "seeds", *MEASURES, "KL on good turns", "M tokens", "CPU s"]))
    for arm, arm_rows in arms.items():
        cells = ["{:.3f} [{:.3f}, {:.3f}]".format(*interval([m(row) for row in arm_rows])) for m in MEASURES.values()]
        drifts = [row["good_turn_kl"] for row in arm_rows if row["good_turn_kl"] is not None]
        drift = f"{statistics.fmean(drifts):.3f}" if drifts else "-"
        tokens = statistics.fmean(row["tokens"][-1] for row in arm_rows) / 1e6
        seconds = statistics.fmean(row["cpu_seconds"] for row in arm_rows)
        print(line([arm, str(len(arm_rows)), *cells, drift, f"{tokens:.2f}", f"{seconds:.0f}"]))
    print("\n" + head(["", "contrast", "measure", "difference", "95 % interval", "reading"]))
    for name, (left, right, title) in CONTRASTS.items():
        mean, low, high = paired(arms[left], arms[right], MEASURES[title])
        cells = [name, f"{left} - {right}", title, f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
        print(line([*cells, reading(low, high, better="solved" in title)]))
    show_curves(arms)
    print("\n" + head(["solved at the end, by seed", *map(str, sorted(seeds))]))
    for arm, arm_rows in arms.items():
        print(line([arm, *(f"{share(row, 'solved', -1):.2f}" for row in arm_rows)]))
    print("\n" + head(["median norm of the weighted gradient", "RLVR", "distillation"]))
    for arm, arm_rows in arms.items():
        print(line([arm, *(norm(arm_rows, f"gradient/{name}") for name in ("rlvr", "distillation"))]))


def show_curves(arms: dict[str, list[Row]]) -> None:
    """Print the mean curves of the solved share and of the turns that err."""
    episodes = next(iter(arms.values()))[0]["episodes"]
    print("\n" + head(["share", "arm", *(f"after {number} episodes" for number in episodes)]))
    for title, name in {"solved": "solved", "turns that err": "turns"}.items():
        for arm, arm_rows in arms.items():
            curve = [statistics.fmean(share(row, name, place) for row in arm_rows) for place in range(len(episodes))]
            print(line([title, arm, *(f"{value:.2f}" for value in curve)]))


def go(options: argparse.Namespace) -> None:
    """Make the missing runs, unless only the tables are wanted, and print the tables. Raises Refused."""
    rows = load(options.out)
    if options.only == "tasks":
        show_tasks(options.work)
    elif not options.print:
        make_runs(rows, options)
    if options.only is None:
        show(rows)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="File of the rows.")
    parser.add_argument("--work", type=Path, help="Folder of the packages, the tasks, the base and the runs.")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_95), help="Counted seeds of each arm.")
    parser.add_argument("--only", choices=["tasks", "base"], help="Stop after the check of the tasks or the base.")
    parser.add_argument("--print", action="store_true", help="Only print the tables.")
    options = parser.parse_args()
    if not options.print and options.work is None:
        parser.error("--work is needed to make runs")
    return status(lambda: go(options))


if __name__ == "__main__":
    sys.exit(main())
