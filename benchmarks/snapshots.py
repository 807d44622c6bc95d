"""Time of building Snapshots with a cold cache, alone or alternating with another checkout, and their reproducibility.

``python benchmarks/snapshots.py [--against PYTHON] [--rounds N] [--packages NAME==VERSION ...] [--json]``

PYTHON is the interpreter of another environment with Etude installed, such as ``OTHER/.venv/bin/python``. Each package
is built ``--rounds`` times by each checkout, in turns, and the checkout that begins changes every round; the table has
the medians. Every build runs in its own process with empty caches of Etude, uv and pip, so all packages are downloaded.
CPU time includes sandboxes and every process started. The builds of this checkout, at least two of each package, must
have the same digest and give archives of the same bytes; packing is not part of the times.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

PACKAGES = (
    "attrs==26.1.0",
    "cachetools==5.5.0",
    "humanize==4.11.0",
    "jmespath==1.0.1",
    "tabulate==0.9.0",
    "toolz==1.0.0",
)
_BUILD = """
import sys
from pathlib import Path
from etude.environments.snapshots import build_snapshot
built = build_snapshot(sys.argv[1], cache=Path(sys.argv[2]))
print(built.digest, len(built.baseline.passed))
"""
_PACK = """
import sys
from pathlib import Path
from etude.environments.snapshots.store.pack import find_snapshot, pack
print(pack(find_snapshot(sys.argv[1], Path(sys.argv[2])), Path(sys.argv[2])).sha256)
"""
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Measurement:
    """One build: wall and CPU seconds, the snapshot's digest, passing tests, and the archive's hash if packed."""

    wall: float
    cpu: float
    digest: str
    tests: int
    archive: str = ""


def build(python: str, package: str) -> Measurement:
    """Build ``package`` with the Etude of ``python`` in empty caches; this checkout packs the result afterwards.

    Raises CalledProcessError when a step fails.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        places = {"UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip", "XDG_CACHE_HOME": "xdg", "ETUDE_CACHE": "etude"}
        environment = {**os.environ, **{name: os.path.join(folder, place) for name, place in places.items()}}
        cache = environment["ETUDE_CACHE"]

        def run(code: str, *arguments: str) -> list[str]:
            command = [python, "-c", code, *arguments]
            done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
            return done.stdout.split()

        before, started = cpu_seconds(), time.perf_counter()
        digest, tests = run(_BUILD, f"pypi:{package}", cache)
        wall = time.perf_counter() - started
        wait_for_orphans()
        cpu = cpu_seconds() - before
        return Measurement(
            wall, cpu, digest, int(tests), *(run(_PACK, digest, cache) if python == sys.executable else [])
        )


def cpu_seconds() -> float:
    """Return the CPU time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_orphans() -> None:
    """Wait for the remaining processes of a build, which this process has inherited, to count their CPU time."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def print_table(results: dict[str, list[list[Measurement]]]) -> None:
    """Print the medians of each package; the second list of a package has the other checkout's builds."""
    compared = any(len(builds) > 1 for builds in results.values())
    print(f"{'package':<20} {'tests':>6} {'wall s':>8} {'CPU s':>8}", end="")
    print(f" {'other wall s':>13} {'other CPU s':>12} {'wall':>6} {'CPU':>6}" if compared else "")
    rows = {package: [medians(items) for items in builds] for package, builds in results.items()}
    for package, times in rows.items():
        print_row(package, str(results[package][0][0].tests), times)
    sums = [
        (sum(wall for wall, _ in times), sum(cpu for _, cpu in times)) for times in zip(*rows.values(), strict=True)
    ]
    print_row("all", "", sums)


def medians(items: Sequence[Measurement]) -> tuple[float, float]:
    """Return the median wall and CPU time."""
    return median(item.wall for item in items), median(item.cpu for item in items)


def print_row(name: str, tests: str, times: Sequence[tuple[float, float]]) -> None:
    """Print one line; two pairs of times give the ratio of the second to the first."""
    line = f"{name:<20} {tests:>6} {times[0][0]:8.1f} {times[0][1]:8.1f}"
    if len(times) > 1:
        line += f" {times[1][0]:13.1f} {times[1][1]:12.1f}"
        line += f" {times[1][0] / times[0][0]:5.1f}x {times[1][1] / times[0][1]:5.1f}x"
    print(line, flush=True)


def measure(
    packages: Sequence[str], pythons: Sequence[str], rounds: int, progress: Callable[[str], None]
) -> dict[str, list[list[Measurement]]]:
    """Build every package ``rounds`` times with each interpreter, in turns; return the builds by interpreter."""
    results: dict[str, list[list[Measurement]]] = {}
    for package in packages:
        results[package] = [[] for _ in pythons]
        for number in range(rounds):
            order = range(len(pythons)) if number % 2 == 0 else reversed(range(len(pythons)))
            for index in order:
                results[package][index].append(build(pythons[index], package))
        walls = [", ".join(f"{item.wall:.1f}" for item in items) for items in results[package]]
        progress(f"{package}: wall seconds {' against '.join(walls)}")
    return results


def main() -> None:
    """Run the benchmark; exit with 1 when two builds of this checkout differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="Interpreter of another environment with Etude installed.")
    parser.add_argument("--rounds", type=int, default=3, help="Builds of each package by each checkout (default: 3).")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="Releases to build, as NAME==VERSION.")
    parser.add_argument("--json", action="store_true", help="Print the measurements as JSON.")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2, because two builds of a package are compared")
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pythons = [sys.executable, *([options.against] if options.against else [])]
    results = measure(options.packages, pythons, options.rounds, lambda line: print(line, file=sys.stderr, flush=True))
    different = [
        package for package, builds in results.items() if len({(item.digest, item.archive) for item in builds[0]}) > 1
    ]
    if options.json:
        print(json.dumps({name: [[asdict(i) for i in items] for items in builds] for name, builds in results.items()}))
    else:
        print_table(results)
        print(f"same digest and same archive in all builds: {len(results) - len(different)} of {len(results)} packages")
    if different:
        sys.exit(f"not reproducible: {', '.join(different)}; compare their archives")


if __name__ == "__main__":
    main()
