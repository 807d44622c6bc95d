"""Yield of the deletion generators: packages x {function, method, class} x {stub, remove}, with rejection reasons.

python benchmarks/deletion.py OUT SOURCE... [--count 20] [--seed 0] [--jobs 2] [--knob mutants=0]
Writes OUT/PACKAGE-GENERATOR-MODE/; finished parts are skipped. Prints one table, as Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from etude.errors import GeneratorError
from etude.generators.generate import generate

KINDS = {"function": "fd_function", "method": "fd_method", "class": "fd_class"}
MODES = ("stub", "remove")


def part(out: Path, source: str, kind: str, mode: str, options: argparse.Namespace) -> dict[str, object]:
    """Return one cell of the table: the report of one source, generator and mode."""
    name = source.removeprefix("pypi:").split("==")[0]
    folder = out / f"{name}-{kind}-{mode}"
    report = folder / "report.json"
    if not report.is_file():
        try:
            generate(
                [source],
                generators=[KINDS[kind]],
                count=options.count,
                seed=options.seed,
                out=folder,
                jobs=options.jobs,
                knobs={"mode": mode, **dict(knob.split("=", 1) for knob in options.knob)},
            )
        except GeneratorError as error:  # no eligible code gives an empty cell
            print(f"{folder.name}: {error}", file=sys.stderr)
            return {"package": name, "kind": kind, "mode": mode, "candidates": 0, "tasks": 0, "rejected": {}}
    numbers = json.loads(report.read_text())
    print(f"{folder.name}: {numbers['tasks']} of {numbers['candidates']} {numbers['rejected']}", file=sys.stderr)
    return {"package": name, "kind": kind, "mode": mode, **numbers}


def lines(cells: list[dict[str, object]]) -> Iterator[str]:
    """Yield the table: a row per package and kind, then a row per kind with all packages together."""
    yield "| package | kind | stub | stub rejected | remove | remove rejected |"
    yield "|---|---|---|---|---|---|"
    packages = list(dict.fromkeys(cell["package"] for cell in cells))
    for package in [*packages, "all"]:
        for kind in KINDS:
            columns = []
            for mode in MODES:
                chosen = [
                    cell
                    for cell in cells
                    if cell["kind"] == kind and cell["mode"] == mode and package in ("all", cell["package"])
                ]
                tried = sum(int(str(cell["candidates"])) for cell in chosen)
                tasks = sum(int(str(cell["tasks"])) for cell in chosen)
                reasons: Counter[str] = Counter()
                for cell in chosen:
                    reasons.update(cell["rejected"])  # type: ignore[arg-type]
                share = f" ({tasks / tried:.0%})" if tried else ""
                columns.append(f"{tasks}/{tried}{share}")
                columns.append(", ".join(f"{name} {number}" for name, number in reasons.most_common()) or "-")
            yield f"| {package} | {kind} | {' | '.join(columns)} |"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--knob", action="append", default=[], help="Knob as name=value; repeatable.")
    options = parser.parse_args()
    cells = [
        part(options.out, source, kind, mode, options) for source in options.sources for kind in KINDS for mode in MODES
    ]
    print("\n".join(lines(cells)))


if __name__ == "__main__":
    main()
