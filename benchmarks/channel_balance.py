"""Gradient of RLVR and of distillation in one step, for several limits of an episode's length.

usage: python benchmarks/channel_balance.py [--max-ids 512,2048,8192,32768] [--weight 0.1] [--seed 0]

The recipe ``demo`` makes one step for each limit, with the same weights, seed, tasks and turns: 32 drills, which are
short under every limit. Printed are the norms of the two channels, as a run logs them (``gradient/*``), and their
ratio. Dr.GRPO divides by the limit, the distillation by the weight of its sites.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from etude.cli.commands.catalogue import recipe_path
from etude.cli.commands.train import silence_libraries
from etude.trainers.recipe.load import load
from etude.trainers.report.run_files import METRICS, read_metrics
from etude.trainers.run.train import run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-ids", default="512,2048,8192,32768")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    silence_libraries()
    print("| max_ids | RLVR | distillation | distillation : RLVR |")
    print("|---|---|---|---|")
    for max_ids in map(int, options.max_ids.split(",")):
        rlvr, distillation = norms(max_ids, options.weight, options.seed)
        print(f"| {max_ids} | {rlvr:.3g} | {distillation:.3g} | {distillation / rlvr:.3g} |", flush=True)


def norms(max_ids: int, weight: float, seed: int) -> tuple[float, float]:
    """Return the gradient norms of RLVR and of distillation, weights included, in the first step of a run."""
    with tempfile.TemporaryDirectory() as folder:
        changes = {
            "out": f"{folder}/run",
            "seed": seed,
            "train.steps": 1,
            "train.group": 8,
            "train.micro": 32,
            "train.evaluate_tasks": 1,
            "train.gradients_every": 1,
            "channels.distillation": weight,
            "generation.max_ids": max_ids,
        }
        run(load(recipe_path(Path("demo")), [f"{key}={value}" for key, value in changes.items()]))
        (row,) = read_metrics(Path(folder) / "run" / METRICS)
        return row["gradient/rlvr"], row["gradient/distillation"]


if __name__ == "__main__":
    main()
