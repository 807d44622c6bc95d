"""The leak scanner on real workspaces: the number of clean builds that it rejects, and its time for a MiB.

``python benchmarks/leaks.py DIR... [--json]``: each DIR is a task set. The dependencies, interpreter and base that all
tasks of a Snapshot share are indexed again in an empty folder, then every task's workspace is scanned. At the end each
solution is hidden as a zipped file, which must be found. Times are CPU time of this process.

``python benchmarks/leaks.py --trees DIR...``: the same for plain folders, such as a ``site-packages``. Each is scanned
for a function that is not in it, and indexed, five times with empty caches; printed are the medians per MiB.
"""

from __future__ import annotations

import io
import shutil
import statistics
import tempfile
import time
import zipfile
from pathlib import Path

from etude.benchmarks.output import parser_of, show
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.exercise import Exercise
from etude.generators.validation.checks.leaks import LeakCheck, shared_roots, task_needles
from etude.models import Task
from etude.monitors.leaks import Index, needles, scan
from etude.monitors.leaks.text import read

MIB = 1 << 20


def size_of(tree: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())


def planted_is_found(task: Task, scratch: Path) -> bool:
    """Return whether the solution is found when it is in the workspace as a zipped file."""
    trees = materials(task)
    exercise = Exercise.of(task, trees)
    tree = scratch / "planted"
    shutil.copytree(trees.agent_tree, tree, symlinks=True)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, piece in enumerate(exercise.pieces):
            archive.writestr(f"{number}.py", piece.source)
    (tree / "planted.zip").write_bytes(target.getvalue())
    secrets = task_needles(task, trees.agent_tree, exercise, SourceTree.of(trees.snapshot))
    leaks = scan({"": tree}, secrets)
    shutil.rmtree(tree)
    return any(leak.path.startswith("planted.zip") for leak in leaks)


def measure(sets: list[Path]) -> dict[str, object]:
    """Return the counts and times of all tasks of the sets."""
    tasks = [task for folder in sets for task in TaskSet.load(folder)]
    checks: dict[str, LeakCheck] = {}
    rejected, seconds, scanned, visible, indexing = [], 0.0, 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        indexed: dict[str, int] = {}
        for task in tasks:
            trees = materials(task)
            for name in ("env", "python", "base"):
                roots, skip = shared_roots(trees.snapshot, name)
                key = f"{name}{sorted(roots.items())}"
                if key not in indexed:
                    started = time.process_time()
                    target = Path(folder, str(len(indexed)))
                    indexed[key] = Index.build(target, roots, skip=skip, machine_code=name != "base")
                    indexing += time.process_time() - started
                visible += indexed[key]
            exercise = Exercise.of(task, trees)
            if trees.snapshot.digest not in checks:
                checks[trees.snapshot.digest] = LeakCheck(trees.snapshot)
                checks[trees.snapshot.digest].find(task, trees, exercise)  # opens the indexes
            started = time.process_time()
            leaks = checks[trees.snapshot.digest].find(task, trees, exercise)
            seconds += time.process_time() - started
            scanned += size_of(trees.agent_tree)
            rejected += [f"{task.task_id}: {leaks[0]}"] if leaks else []
        detected = sum(planted_is_found(task, Path(folder)) for task in tasks)
    shared, visible = sum(indexed.values()), visible + scanned
    return {
        "clean builds": len(tasks),
        "packages": len({task.repo for task in tasks}),
        "rejected": len(rejected),
        "planted and found": detected,
        "workspace MiB": round(scanned / MIB, 1),
        "workspace ms per MiB": round(seconds * 1e3 / (scanned / MIB), 1),
        "ms per task": round(seconds * 1e3 / len(tasks), 1),
        "shared MiB, read once": round(shared / MIB, 1),
        "shared ms per MiB": round(indexing * 1e3 / (shared / MIB), 1),
        "ms per visible MiB, all tasks": round((seconds + indexing) * 1e3 / (visible / MIB), 2),
        "reasons": rejected,
    }


ABSENT = b'''
def quenching_temperature(alloy_samples, furnace_profile):
    """Return the temperature at which the first sample of the alloy becomes brittle in the furnace."""
    brittle_samples = [ingot for ingot in alloy_samples if furnace_profile.vickers_hardness(ingot) > 4.5]
    if not brittle_samples:
        raise ValueError("no sample of the alloy became brittle")
    return min(furnace_profile.kelvin_reading(ingot) for ingot in brittle_samples)
'''


def measure_trees(trees: list[Path]) -> dict[str, object]:
    """Return the medians of scanning and indexing some folders."""
    roots = {str(number): tree for number, tree in enumerate(trees)}
    mib = sum(map(size_of, trees)) / MIB
    secrets = needles([ABSENT], visible=[b""])
    scans, indexes, leaks = [], [], []
    for _ in range(5):
        read.clear()
        started = time.process_time()
        leaks = scan(roots, secrets)
        scans.append((time.process_time() - started) * 1e3 / mib)
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            Index.build(Path(folder, "index"), roots)
            indexes.append((time.process_time() - started) * 1e3 / mib)
    return {
        "MiB": round(mib, 1),
        "leaks": [str(leak) for leak in leaks],
        "scan, ms per MiB": round(statistics.median(scans), 1),
        "index, ms per MiB": round(statistics.median(indexes), 1),
    }


def main() -> None:
    """Run the benchmark."""
    parser = parser_of(__doc__)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--trees", action="store_true", help="Measure plain folders instead of task sets.")
    arguments = parser.parse_args()
    result = measure_trees(arguments.sets) if arguments.trees else measure(arguments.sets)
    show(result, arguments.json, lambda name, value: f"{name:32} {value}")


if __name__ == "__main__":
    main()
