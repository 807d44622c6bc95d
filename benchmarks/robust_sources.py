"""Share of popular source distributions that become Snapshots without a recipe.

``python benchmarks/robust_sources.py choose RANKING [--count 60]`` writes ``robust_sources.txt`` beside this file:
the first packages of RANKING (a file with one name a line, the most downloaded first) that have only pure-Python wheels
and whose newest source distribution holds tests. It builds nothing.

``python benchmarks/robust_sources.py run --results FILE [NAME ...]`` builds the Snapshot of each listed package, one
after another, each in its own process, and appends one JSON line for each. Packages that FILE already has are built
again only when they are named.

``python benchmarks/robust_sources.py table --results FILE`` writes ``docs/robust-sources.md``.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIST = HERE / "robust_sources.txt"
PAGE = HERE.parent / "docs" / "robust-sources.md"
TIMEOUT_S = 900.0
_TEST_FILES = ("test_*.py", "*_test.py")
_BUILD = """
import json, sys
from etude.environments.snapshots import SnapshotOptions, build_snapshot
from etude.errors import SnapshotError
try:
    built = build_snapshot(sys.argv[1], progress=lambda text: print(text, file=sys.stderr, flush=True))
except SnapshotError as error:
    print(json.dumps({"reason": str(error)}))
else:
    base = built.baseline
    print(json.dumps({"tests": len(base.passed), "dropped": len(base.dropped), "notes": base.notes}))
"""


def choose(ranking: Path, count: int) -> Iterator[str]:
    """Yield ``NAME==VERSION`` of the first ``count`` pure-Python packages of a ranking whose sources hold tests."""
    from etude.environments.snapshots.builder.interpreter import find_interpreter
    from etude.environments.snapshots.builder.packages import compile_lock
    from etude.environments.snapshots.builder.uv_command import UvResult
    from etude.environments.snapshots.source.pypi import download
    from etude.errors import SnapshotError

    interpreter, chosen = find_interpreter(), 0
    for name in ranking.read_text("utf-8").split():
        with tempfile.TemporaryDirectory() as folder:
            locks = [
                compile_lock(interpreter, [name], Path(folder), ["--no-deps", *only])
                for only in (["--no-binary", name], [])
            ]
            source, wheels = (None if isinstance(lock, UvResult) else lock.packages[0] for lock in locks)
            if source is None or source.sdist is None:
                print(f"{name}: no source distribution", file=sys.stderr)
                continue
            names = [str(wheel.name or wheel.url) for wheel in (wheels.wheels if wheels else None) or ()]
            if not all(wheel.endswith("-none-any.whl") for wheel in names):
                print(f"{name}: compiled", file=sys.stderr)
                continue
            try:
                _, _, archive = download(f"pypi:{name}=={source.version}", interpreter, Path(folder))
            except SnapshotError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            if not holds_tests(archive):
                print(f"{name}: no tests", file=sys.stderr)
                continue
        yield f"{name}=={source.version}"
        chosen += 1
        if chosen == count:
            return


def holds_tests(archive: Path) -> bool:
    """Return whether an archive has a file that is named like a test file, except for those of vendored packages."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            names = zipped.namelist()
    else:
        with tarfile.open(archive) as tar:
            names = tar.getnames()
    project_files = [name.rpartition("/")[2] for name in names if "/_vendor/" not in name]
    return any(fnmatch.fnmatch(name, pattern) for name in project_files for pattern in _TEST_FILES)


def run(packages: Sequence[str], results: Path) -> None:
    """Build each package's Snapshot in its own process and an empty cache, and append the outcome to ``results``."""
    for package in packages:
        started = time.monotonic()
        command = [sys.executable, "-c", _BUILD, f"pypi:{package}"]
        with tempfile.TemporaryDirectory() as cache:
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "ETUDE_CACHE": cache},
                )
                outcome = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"reason": done.stderr[-600:]}
            except subprocess.TimeoutExpired:
                outcome = {"reason": f"the build did not end within {TIMEOUT_S:.0f} s"}
        record = {"package": package, "seconds": round(time.monotonic() - started, 1), **outcome}
        with results.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(record) + "\n")
        print(f"{package}: {outcome.get('tests') or outcome['reason']} ({record['seconds']} s)", flush=True)


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last record of each package."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {record["package"]: record for record in map(json.loads, lines)}


def table(packages: Sequence[str], records: dict[str, dict[str, Any]]) -> str:
    """Return the page: the share, then one row for each package."""
    built = sum("tests" in records.get(package, {}) for package in packages)
    lines = [
        "# Sources that become Snapshots without a recipe",
        "",
        f"{built} of {len(packages)} packages: the most downloaded ones that have only pure-Python wheels and whose",
        "newest source distribution holds tests. Dropped tests do not pass every time. The list was fixed before the",
        "first build; pip alone was replaced later, because its one test file is of a vendored package. Seconds are",
        "those of one build on two shared cores. `benchmarks/robust_sources.py` chooses, builds and writes this page.",
        "",
        "| Package | Version | Tests | Dropped | Seconds | Reason |",
        "|---|---|---|---|---|---|",
    ]
    for package in packages:
        name, _, version = package.partition("==")
        record = records.get(package, {"reason": "not built yet"})
        counts = [str(record.get(field, "")) for field in ("tests", "dropped", "seconds")]
        lines.append(f"| {name} | {version} | {' | '.join(counts)} | {record.get('reason', '').replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the chosen step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("choose", help="Fix the list of packages.")
    first.add_argument("ranking", type=Path, help="File with one name a line, the most downloaded first.")
    first.add_argument("--count", type=int, default=60, help="Length of the list (default: 60).")
    second = steps.add_parser("run", help="Build the Snapshots.")
    second.add_argument("names", nargs="*", help="Build only these packages, again if necessary.")
    third = steps.add_parser("table", help="Write the page.")
    for step in (second, third):
        step.add_argument("--results", type=Path, required=True, help="File with one JSON record a line.")
    options = parser.parse_args()
    if options.step == "choose":
        LIST.write_text("".join(f"{line}\n" for line in choose(options.ranking, options.count)), "utf-8")
        return
    packages = LIST.read_text("utf-8").split()
    records = read_results(options.results)
    if options.step == "table":
        PAGE.write_text(table(packages, records), "utf-8")
        return
    named = [package for name in options.names for package in packages if package.partition("==")[0] == name]
    run(named or [package for package in packages if package not in records], options.results)


if __name__ == "__main__":
    main()
