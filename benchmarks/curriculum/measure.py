"""Measurements of the curriculum, written into docs/curriculum.md.

    python benchmarks/curriculum/measure.py simulated [--worlds N] [--rounds N]
    python benchmarks/curriculum/measure.py drill [--seeds N] [--first SEED] [--rounds N]

``simulated`` lets a solver with a known, growing skill play made-up tasks (``simulated_solver.py``). ``drill`` trains
small networks on drills (``drill_learner.py``), half a minute of CPU each. Both add to ``results.json`` beside this
file, and write its content into the page between marks.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from etude.benchmarks.curriculum.simulated_solver import World, growing_skill, play_rounds
from etude.generators.curriculum.band import MEDIUM

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "curriculum.md"
WITH, WITHOUT = "with", "without"
"""Names of the two arms in the results."""


def simulated(worlds: int, rounds: int) -> dict[str, Any]:
    """Return the rounds of each world by arm."""
    results: dict[str, Any] = {}
    for seed in range(worlds):
        skills = growing_skill(rounds)
        arms = {name: play_rounds(World(seed), skills, adapt=name == WITH) for name in (WITH, WITHOUT)}
        results[str(seed)] = {name: [asdict(item) for item in played] for name, played in arms.items()}
    return results


def drill(seeds: Sequence[int], rounds: int) -> dict[str, Any]:
    """Return the training of a network for each seed by arm."""
    import torch

    from etude.benchmarks.curriculum.drill_learner import train

    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for seed in seeds:
        results[str(seed)] = {}
        for name in (WITH, WITHOUT):
            started = time.process_time()
            training = asdict(train(rounds, seed, adapt=name == WITH))
            results[str(seed)][name] = {**training, "cpu_seconds": round(time.process_time() - started, 1)}
    return results


def simulated_text(results: dict[str, Any]) -> str:
    """Return the curve of the first world, and the share of rounds in the band over all worlds."""
    first = results["0"]
    lines = ["| round | skill | solved with curriculum | solved without | mean step | large tasks |", "|" + "---|" * 6]
    for number, (adapted, fixed) in enumerate(zip(first[WITH], first[WITHOUT], strict=True)):
        cells = [
            str(number),
            f"{adapted['skill']:.2f}",
            f"{adapted['solve_rate']:.0%}",
            f"{fixed['solve_rate']:.0%}",
            f"{adapted['mean_step']:.1f}",
            f"{adapted['large']:.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Over {len(results)} worlds, from round 1 on:", "", "| arm | rounds in 0.3 to 0.7 | last round |"]
    lines.append("|---|---|---|")
    for name in (WITH, WITHOUT):
        rates = [item["solve_rate"] for world in results.values() for item in world[name][1:]]
        within = sum(rate in MEDIUM for rate in rates)
        last = [world[name][-1]["solve_rate"] for world in results.values()]
        lines.append(
            f"| {name} curriculum | {within} of {len(rates)} ({within / len(rates):.0%}) | "
            f"{min(last):.0%} to {max(last):.0%} solved |"
        )
    return "\n".join(lines)


def drill_text(results: dict[str, Any]) -> str:
    """Return the curve of the first seed, and what each network can do after training."""
    first = results[min(results)]
    lines = ["| round | solved with curriculum | mean level | solved without | mean level |", "|" + "---|" * 5]
    pairs = list(zip(first[WITH]["rounds"], first[WITHOUT]["rounds"], strict=True))
    for number, arms in enumerate(pairs):
        if number % 3 == 0 or number == len(pairs) - 1:
            cells = " | ".join(f"{item['solve_rate']:.0%} | {item['mean_level']:.1f}" for item in arms)
            lines.append(f"| {number} | {cells} |")
    lines += ["", "| seed | arm | level 1 | 2 | 3 | 4 | 5 | rounds in 0.3 to 0.7 | CPU seconds |", "|" + "---|" * 9]
    for seed, arms in sorted(results.items()):
        for name in (WITH, WITHOUT):
            solved = " | ".join(f"{rate:.0%}" for rate in arms[name]["solved"].values())
            rates = [item["solve_rate"] for item in arms[name]["rounds"][1:]]
            within = f"{sum(rate in MEDIUM for rate in rates)} of {len(rates)}"
            lines.append(f"| {seed} | {name} | {solved} | {within} | {arms[name]['cpu_seconds']:.0f} |")
    return "\n".join(lines)


TEXTS = {"simulated": simulated_text, "drill": drill_text}


def write(part: str, added: dict[str, Any]) -> None:
    """Add results to the file, and write the tables of the part into the page."""
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    results[part] = {**results.get(part, {}), **added} if part == "drill" else added
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    page = PAGE.read_text("utf-8")
    block = f"<!-- {part} -->\n\n{TEXTS[part](results[part])}\n\n<!-- end of {part} -->"
    pattern = re.compile(f"<!-- {part} -->.*?<!-- end of {part} -->", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: block, page), "utf-8")
    print(block)


def main() -> None:
    """Run a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=TEXTS)
    for name, default in {"worlds": 12, "seeds": 1, "first": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=0, help="default: 20 simulated, 45 of training")
    options = parser.parse_args()
    if options.part == "simulated":
        write("simulated", simulated(options.worlds, options.rounds or 20))
    else:
        seeds = range(options.first, options.first + options.seeds)
        write("drill", drill(seeds, options.rounds or 45))


if __name__ == "__main__":
    main()
