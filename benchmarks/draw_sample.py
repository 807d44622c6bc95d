"""A sample of tasks from many sets, for ``etude validate``.

usage: python benchmarks/draw_sample.py FOLDER... --to SET [--count 300] [--split train] [--per-package 60]

The tasks of the sets below the folders are drawn by the hash of their ids.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from pathlib import Path


def main() -> None:
    """Write the rows that are drawn to ``SET/tasks.jsonl``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--split", default="train")
    parser.add_argument("--per-package", type=int, default=60)
    options = parser.parse_args()
    lines = [
        line
        for folder in options.folders
        for path in sorted(folder.glob("**/tasks.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    rows = [(json.loads(line), line) for line in lines]
    drawn = sorted(
        (hashlib.sha256(row["task_id"].encode()).digest(), row["repo"], line)
        for row, line in rows
        if row["split"] == options.split
    )
    packages: Counter[str] = Counter()
    chosen = []
    for _, package, line in drawn:
        if packages[package] < options.per_package and len(chosen) < options.count:
            packages[package] += 1
            chosen.append(line)
    options.to.mkdir(parents=True)
    (options.to / "tasks.jsonl").write_bytes(b"".join(line + b"\n" for line in chosen))
    print(f"{len(chosen)} tasks of {len(packages)} packages")


if __name__ == "__main__":
    main()
