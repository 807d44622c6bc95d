"""The combined loss on mutation tasks of a real package, as registered in PREREGISTERED_REAL.md.

    python research/error_turns/real.py --out FILE --work DIR [--first 1] [--seeds 5] [--base NAME] [--only tasks|base]
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
from dataclasses import asdict
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
from etude.research.error_turns.worlds.real_world import SIZES, TURNS, Real, outcome, world
from etude.research.error_turns.worlds.world import World
from etude.research.muon_rl.compare import T_95, Measure, Row, final, interval, over_run, paired, share
from etude.research.muon_rl.compare import table_head as head
from etude.research.muon_rl.compare import table_row as line
from etude.trainers.tiny_models.pretrain import is_made

ARMS = ("grpo_sparse", "distill", "sparse_tenth")
BASES = Path(__file__).parent / "results" / "bases"
"""Bases that are part of the results; they are not made again."""
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
    """Make the missing rows: of the tasks, the base and, seed by seed, the arms. Raises Refused for another base."""

    def add(row: Row) -> None:
        rows.append(row)
        append(options.out, row)

    if not any(row["arm"] == "tasks" for row in rows):
        add(tasks_row(options.work))
    if options.only == "tasks":
        return
    played = world(options.work)
    os.environ.setdefault("MAX_CONCURRENT_ENVS", str(4 * played.held))
    stored = is_made(BASES / options.base, SIZES[options.base], base_models.SEED)
    base = base_models.base(played, options.base, BASES if stored else options.work / "bases")
    torch.set_num_threads(1)
    digest = base_models.digest(base)
    check_same_setup([row for row in rows if row["arm"] in ARMS], {options.base: digest}, played.updates)
    with played.served(options.work, []) as url:
        if not any((row["arm"], row.get("base")) == ("base", digest) for row in rows):
            add(base_row(played, base, url, options.work) | {"name": options.base, "base": digest})
        done = {(row["arm"], row.get("seed")) for row in rows}
        for seed in range(options.first, options.seeds + 1) if options.only is None else ():
            for arm in ARMS:
                if (arm, seed) not in done:
                    add(runs.train(played, Run(arm, RATE, seed), base, url, options.work, updates=played.updates))
                    print(arm, seed, *(f"{measure(rows[-1]):.3f}" for measure in MEASURES.values()), flush=True)


def base_row(played: World, base: Path, url: str, folder: Path) -> Row:
    """Play the held-out tasks twice with a base; return the shares, and how the episodes of the first play ended."""
    tasks = Real(folder).by_id
    trainer = runs.build_run(played, Arm(), 1e-9, 0, base, url, folder / "runs" / "base", 1).trainer
    try:
        first, second, rollouts = runs.evaluated(trainer)
    finally:
        trainer.close()
    ends = Counter(outcome(rollout, tasks[rollout.task_id].case) for rollout in rollouts)
    return {"arm": "base", "held": {"train": [asdict(first)], "eval": [asdict(second)]}, "ends": dict(ends)}


def tasks_row(folder: Path) -> Row:
    """Play the scripted solution on every task, and return how many tasks there are and how many it solves."""
    real = Real(folder)
    rewards = asyncio.run(solved_by_script(real))
    report = json.loads((folder / "generated" / "report.json").read_text())
    return {
        "arm": "tasks",
        "candidates": report["candidates"],
        "generated": report["tasks"],
        "kept": len(rewards),
        "functions": len({played.case.function for played in real.by_id.values()}),
        "solved by the script": sum(reward >= 1 for reward in rewards),
        "to learn from": len(real.names(held=False)),
        "held out": len(real.names(held=True)),
    }


async def solved_by_script(real: Real) -> list[float]:
    """Return the reward of the scripted solution of each task, played in the strongest sandbox that works here."""
    task_ids, rewards, knows = list(real.by_id), [], real.knows()  # the first makes the tasks
    tasks = TaskSet.load(real.folder / "tasks")
    for task_id in task_ids:
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


def show(rows: Sequence[Row]) -> None:
    """Print the tables of all rows; those of the arms need two seeds that all arms have."""
    tasks = [row for row in rows if row["arm"] == "tasks"]
    bases = [row for row in rows if row["arm"] == "base"]
    for row in tasks:
        numbers = {name: str(value) for name, value in row.items() if name != "arm"}
        print(head([*numbers]) + "\n" + line([*numbers.values()]))
    if bases:
        print("\n" + head(["base", "solved, first play", "solved, second play", "turns that err", "ends, first play"]))
    for row in bases:
        solved = [f"{row['held'][play][0]['solved']:.2f}" for play in ("train", "eval")]
        ends = ", ".join(f"{name}: {number}" for name, number in sorted(row["ends"].items()))
        print(line([row["name"], *solved, f"{share(row, 'turns', 0):.2f}", ends]))
    arms = {arm: by_seed([row for row in rows if row["arm"] == arm]) for arm in ARMS}
    seeds = set.intersection(*({row["seed"] for row in arm_rows} for arm_rows in arms.values()))
    if len(seeds) >= 2:
        print()
        show_arms({arm: [row for row in arm_rows if row["seed"] in seeds] for arm, arm_rows in arms.items()}, seeds)


def show_arms(arms: dict[str, list[Row]], seeds: set[int]) -> None:
    """Print the measures of all arms, the contrasts, the curves and the seeds that all arms have."""
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
    """Make the missing rows, unless only the tables are wanted, and print the tables. Raises Refused."""
    rows = load(options.out)
    if not options.print:
        make_runs(rows, options)
    show(rows)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="File of the rows.")
    parser.add_argument("--work", type=Path, help="Folder of the packages, the tasks, the base and the runs.")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_95), help="Counted seeds of each arm.")
    parser.add_argument("--first", type=int, default=1, help="First seed to run; another process may run the others.")
    parser.add_argument("--base", default="moved", choices=sorted(SIZES), help="Name of the base.")
    parser.add_argument("--only", choices=["tasks", "base"], help="Stop after the check of the tasks or the base.")
    parser.add_argument("--print", action="store_true", help="Only print the tables.")
    options = parser.parse_args()
    if not options.print and options.work is None:
        parser.error("--work is needed to make runs")
    return status(lambda: go(options))


if __name__ == "__main__":
    sys.exit(main())
