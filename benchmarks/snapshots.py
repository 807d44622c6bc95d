"""Time of building Snapshots with a cold cache, alone or alternating with another checkout, and their reproducibility.

``python benchmarks/snapshots.py [--against PYTHON] [--packages NAME==VERSION ...] [--json]``: PYTHON is the interpreter
of another environment with Etude installed. Every build runs in its own process with empty caches of Etude, uv and pip,
so all packages are downloaded. CPU time includes sandboxes and every process started. Afterwards each package is built
once more; the two builds must have the same digest and give archives of the same bytes.
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
from dataclasses import asdict, dataclass
from pathlib import Path

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
if len(sys.argv) > 3:
    from etude.environments.snapshots.store.pack import pack
    print(pack(built, Path(sys.argv[3])).sha256)
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


def build(python: str, package: str, packed: bool = False) -> Measurement:
    """Build ``package`` with the Etude of ``python`` in empty caches. Raises CalledProcessError when it fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        caches = {"UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip", "XDG_CACHE_HOME": "xdg", "ETUDE_CACHE": "etude"}
        environment = {**os.environ, **{name: str(home / place) for name, place in caches.items()}}
        arguments = [f"pypi:{package}", str(home / "etude"), *([str(home / "archive.tar.xz")] if packed else [])]
        before, started = cpu_seconds(), time.perf_counter()
        process = subprocess.run(
            [python, "-c", _BUILD, *arguments],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        wall = time.perf_counter() - started
        wait_for_orphans()
        digest, tests, *archive = process.stdout.split()
        return Measurement(wall, cpu_seconds() - before, digest, int(tests), *archive)


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


def print_table(results: dict[str, list[Measurement]]) -> None:
    """Print the builds of each package; the second measurement of a package is the other checkout's."""
    compared = any(len(pair) > 1 for pair in results.values())
    print(f"{'package':<20} {'tests':>6} {'wall s':>8} {'CPU s':>8}", end="")
    print(f" {'other wall s':>13} {'other CPU s':>12} {'wall':>6} {'CPU':>6}" if compared else "")
    for package, pair in results.items():
        print_row(package, str(pair[0].tests), [(item.wall, item.cpu) for item in pair])
    sums = [(sum(m.wall for m in items), sum(m.cpu for m in items)) for items in zip(*results.values(), strict=True)]
    print_row("all", "", sums)


def print_row(name: str, tests: str, times: list[tuple[float, float]]) -> None:
    """Print one line; two pairs of times give the ratio of the second to the first."""
    line = f"{name:<20} {tests:>6} {times[0][0]:8.1f} {times[0][1]:8.1f}"
    if len(times) > 1:
        line += f" {times[1][0]:13.1f} {times[1][1]:12.1f}"
        line += f" {times[1][0] / times[0][0]:5.1f}x {times[1][1] / times[0][1]:5.1f}x"
    print(line, flush=True)


def main() -> None:
    """Run the benchmark; exit with 1 when a second build differs from the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="Interpreter of another environment with Etude installed.")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="Releases to build, as NAME==VERSION.")
    parser.add_argument("--json", action="store_true", help="Print the measurements as JSON.")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pythons = [sys.executable, *([options.against] if options.against else [])]
    results: dict[str, list[Measurement]] = {}
    different = []
    for package in options.packages:
        results[package] = [build(python, package, packed=python == sys.executable) for python in pythons]
        again = build(sys.executable, package, packed=True)
        first = results[package][0]
        if (first.digest, first.archive) != (again.digest, again.archive):
            different.append(package)
        print(f"{package}: {', '.join(f'{item.wall:.1f} s' for item in results[package])}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({name: [asdict(item) for item in items] for name, items in results.items()}))
    else:
        print_table(results)
        print(f"second builds with the same digest and archive: {len(results) - len(different)} of {len(results)}")
    if different:
        sys.exit(f"not reproducible: {', '.join(different)}")


if __name__ == "__main__":
    main()
