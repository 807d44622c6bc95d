"""Write the page about an examined data set from the verdicts of ``etude import``.

    python benchmarks/swe_bench_lite.py ROWS IMPORTED > docs/swe-bench-lite.md

ROWS is the file of rows, IMPORTED the folder that ``etude import ROWS --out IMPORTED`` wrote or is still writing. Rows
without a verdict are listed as not examined.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from etude.generators.library.rows.formats import read_instances
from etude.generators.library.rows.importing import table

VERDICTS = ("valid", "relabelled", "flaky", "gold_fails", "needs_network", "needs_build")


def main(rows: str, imported: Path) -> None:
    """Print the page."""
    lines = (imported / "instances.jsonl").read_text("utf-8").splitlines()
    verdicts = {item["instance_id"]: item for item in (json.loads(line)["verdict"] for line in lines if line.strip())}
    by_repo: dict[str, list[str]] = defaultdict(list)
    for instance in read_instances(rows).instances:
        by_repo[instance.repo].append(instance.instance_id)
    ordered = [verdicts[name] for names in by_repo.values() for name in names if name in verdicts]
    print("# SWE-bench Lite, validated again\n")
    print("Made by `benchmarks/swe_bench_lite.py`; [swe-bench.md](swe-bench.md) says what each verdict means.\n")
    print_counts(by_repo, verdicts)
    print_environments(ordered)
    print("## Every examined instance\n")
    print("Numbers of tests: the data set's / measured here. Seconds: wall time of the six runs.\n")
    print(table(ordered))


def print_counts(by_repo: dict[str, list[str]], verdicts: dict[str, dict[str, Any]]) -> None:
    """Print the number of instances by repository and verdict."""
    print(f"| repository | rows | {' | '.join(VERDICTS)} | not examined |")
    print("|---|" + "---|" * (len(VERDICTS) + 2))
    total = Counter[str]()
    for repo, names in sorted(by_repo.items()):
        counts = Counter(verdicts[name]["verdict"] if name in verdicts else "not examined" for name in names)
        total.update(counts)
        cells = [str(counts[name]) for name in (*VERDICTS, "not examined")]
        print(f"| {repo} | {len(names)} | {' | '.join(cells)} |")
    cells = [str(total[name]) for name in (*VERDICTS, "not examined")]
    print(f"| all | {sum(total.values())} | {' | '.join(cells)} |\n")


def print_environments(verdicts: list[dict[str, Any]]) -> None:
    """Print what each shared environment cost, and for how many instances it serves."""
    shared: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in verdicts:
        if item["environment"]:
            shared[item["environment"]].append(item)
    builds = [max(item["build_seconds"] for item in items) for items in shared.values()]
    print("## Environments\n")
    print(
        f"{len(shared)} environments serve {sum(map(len, shared.values()))} instances; a build took "
        f"{median(builds):.0f} s in the median and {max(builds):.0f} s at most, on a busy machine of two cores.\n"
    )
    print("| environment | instances | build seconds | size in MiB |")
    print("|---|---|---|---|")
    for name, items in sorted(shared.items()):
        largest = max(items, key=lambda item: item["build_seconds"])
        print(f"| {name} | {len(items)} | {largest['build_seconds']:.0f} | {largest['build_bytes'] >> 20} |")
    print()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
