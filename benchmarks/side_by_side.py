"""Valid tasks per CPU minute: our generators beside SWE-smith's procedural one, on the same packages in one run.

usage: python benchmarks/side_by_side.py SOURCE... --peer PYTHON [--count 20] [--seed 5] [--kind bugs|deletion]
       [--cases FILE]

PYTHON is that of an environment with ``swesmith==0.0.9``. Both sides propose changes of the same files. The peer's rule
is applied as it publishes it: the whole suite runs with the change, in the Snapshot's environment, for at most 120
seconds, and a candidate is valid when at least one test that passed fails and at least one still passes. Ours is the
whole of ``etude generate`` without recorded behaviour and controls, which the peer does not have either. CPU time is
that of a control group, so that it holds every process; needs root and Linux.

With ``--cases``, our validator judges the bugs that the peer accepts, after the measurement, and FILE gets one JSON
object per bug: package, modifier, difference, and the reason why ours rejects it, empty for one that it accepts.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, scratch_tree
from etude.environments.snapshots.store.patches import make_patch
from etude.errors import EtudeError, Rejected
from etude.generators.base import Candidate
from etude.generators.engine.screening import screen
from etude.generators.library.mutation.family import candidate_of
from etude.generators.library.mutation.rules import RuleKnobs
from etude.generators.python.source_tree import SourceTree, read_files
from etude.generators.python.tested_code import TestedCode
from etude.generators.validation.checks.final_checks import CheckKnobs
from etude.generators.validation.pipeline import Validator
from etude.models import GeneratorRef

OURS = {
    "bugs": "bug_operator,bug_arithmetic,bug_control_flow,bug_removed_statement,bug_call,bug_exception,bug_class",
    "deletion": "fd_function,fd_method,fd_class",
}
TIMEOUT_S = 120
_PASSED = re.compile(r"^(\S+::.*?) PASSED", re.MULTILINE)


class ControlGroup:
    """A control group whose CPU time can be read; the state is its folder."""

    def __init__(self) -> None:
        root = Path("/sys/fs/cgroup")
        self.is_v1 = (root / "cpuacct").is_dir()
        self.folder = (root / "cpuacct" if self.is_v1 else root) / f"etude-{os.getpid()}-{time.monotonic_ns()}"
        self.folder.mkdir()

    def run(self, command: list[str]) -> str:
        """Run a command with all its processes in the group, and return what it prints."""
        return subprocess.run(command, preexec_fn=self._enter, check=True, stdout=-1, text=True).stdout

    def _enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_seconds(self) -> float:
        """Return the CPU time that the group has used."""
        if self.is_v1:
            return int((self.folder / "cpuacct.usage").read_text()) / 1e9
        usage = re.search(r"usage_usec (\d+)", (self.folder / "cpu.stat").read_text())
        return int(usage.group(1)) / 1e6 if usage else 0.0


def peer(snapshot: Snapshot, python: str, count: int, seed: int, kind: str) -> dict[str, Any]:
    """Return how many candidates the peer proposes and how many its own rule accepts."""
    tree = SourceTree.of(snapshot)
    files = [module.path for module in tree.modules() if not tree.is_test(module.path)]
    with tempfile.TemporaryDirectory() as folder:
        root = shutil.copytree(snapshot.tree, Path(folder, "tree"), symlinks=True)
        script = Path(__file__).parent / "peers" / "swesmith_candidates.py"
        command = [python, str(script), str(root), str(count), str(seed), kind, *files]
        lines = subprocess.run(command, check=True, stdout=-1, text=True).stdout.splitlines()
    candidates = [json.loads(line) for line in lines]
    before = asyncio.run(passed(snapshot, {}))
    valid = []
    for candidate in candidates:
        after = asyncio.run(passed(snapshot, {candidate["file"]: candidate["text"]}))
        if before - after and before & after:
            valid.append(candidate)
    return {"candidates": len(candidates), "valid": len(valid), "accepted": valid}


async def our_verdicts(snapshot: Snapshot, bugs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each bug that the peer accepts with the reason for which our validator rejects it."""
    code, knobs = TestedCode(snapshot), RuleKnobs()
    validator = Validator(snapshot, knobs=CheckKnobs(behaviour=False, controls=False))
    verdicts = []
    for bug in bugs:
        before = (snapshot.tree / bug["file"]).read_text("utf-8").split("\n")
        after = bug["text"].split("\n")
        changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        lines = [
            line + 1
            for tag, start, stop, *_ in changes
            if tag != "equal"
            for line in range(start, max(stop, start + 1))
        ]
        tests_of = code.tests_of_lines(bug["file"])
        affected = {test for line in lines for test in tests_of.get(line, [])}
        tests = [test for test in code.baseline.passed if test in affected]
        reference = GeneratorRef(name="peer", version="1", seed=0, knobs=asdict(knobs))
        candidate = candidate_of({bug["file"]: bug["text"].encode()}, tests, reference, knobs)
        if not code.decides(tests, knobs.max_share):
            reason = f"not proposed: {len(tests)} of {len(code.baseline.passed)} tests run the changed lines"
        else:
            reason = await verdict(validator, candidate)
        diff = "\n".join(difflib.unified_diff(before, after, bug["file"], bug["file"], lineterm=""))
        verdicts.append({"package": snapshot.name, "modifier": bug["modifier"], "rejected": reason, "diff": diff})
    return verdicts


async def verdict(validator: Validator, candidate: Candidate) -> str:
    """Return why a candidate is rejected; empty when it is accepted."""
    (screened,) = await screen([candidate], validator.warm.suite)
    if screened.rejection is not None:
        return f"{screened.rejection.reason}: {screened.rejection.detail}"
    try:
        await validator.task(candidate, screened.run)
    except Rejected as rejected:
        return f"{rejected.reason}: {rejected.detail}"
    except EtudeError as error:
        return f"not judged: {error}"
    return ""


async def passed(snapshot: Snapshot, files: dict[str, str]) -> set[str]:
    """Return the tests that pass with these files, from pytest's own output; none when the run does not end."""
    contents = {path: text.encode() for path, text in files.items()}
    patch = make_patch(read_files(snapshot.tree, contents), contents)
    with scratch_tree(snapshot, patch) as tree:  # its other files are those of the Snapshot: never write into them
        sandbox = await open_sandbox(snapshot.layers(tree))
        try:
            command = ["python", "-m", "pytest", "--disable-warnings", "--color=no", "--tb=no", "--verbose"]
            env = {"PYTHONPATH": ":".join(f"/workspace/{item}" for item in snapshot.verifier.python_path)}
            result = await sandbox.exec(command, timeout_s=TIMEOUT_S, env=env)
        finally:
            await sandbox.close()
    return set() if result.timed_out else set(_PASSED.findall(result.output.decode("utf-8", "replace")))


def ours(source: str, count: int, seed: int, kind: str) -> list[str]:
    """Return the command that generates our tasks."""
    command = [sys.executable, "-m", "etude.cli", "generate", source, "-g", OURS[kind], "--count", str(count)]
    knobs = ["--knob", "behaviour=false", "--knob", "controls=false"]
    return [*command, "--seed", str(seed), "--jobs", "1", "--any-licence", *knobs, "-o"]


def main() -> None:
    """Print one row per package and side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--kind", choices=sorted(OURS), default="bugs")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--only-peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_peer:
        snapshot = build_snapshot(given.sources[0], SnapshotOptions())
        print(json.dumps(peer(snapshot, given.peer, given.count, given.seed, given.kind)))
        return
    print("| package | suite, CPU s | side | candidates | valid | CPU s | valid per CPU minute | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for source in given.sources:
        snapshot = build_snapshot(source, SnapshotOptions())
        group = ControlGroup()
        options = ["--peer", given.peer, "--count", str(given.count), "--seed", str(given.seed), "--kind", given.kind]
        theirs = json.loads(group.run([sys.executable, __file__, source, "--only-peer", *options]))
        rates = [60 * theirs["valid"] / group.cpu_seconds()]
        name = f"| {snapshot.name} {snapshot.version} | {snapshot.baseline.seconds:.1f} |"
        row = f"{theirs['candidates']} | {theirs['valid']} | {group.cpu_seconds():.0f} | {rates[0]:.0f}"
        print(f"{name} SWE-smith | {row} | |", flush=True)
        group = ControlGroup()
        with tempfile.TemporaryDirectory() as folder:
            group.run([*ours(source, given.count, given.seed, given.kind), f"{folder}/set"])
            report = json.loads(Path(folder, "set", "report.json").read_text())
        rates.append(60 * report["tasks"] / group.cpu_seconds())
        row = f"{report['candidates']} | {report['tasks']} | {group.cpu_seconds():.0f} | {rates[1]:.0f}"
        ratio = f"{rates[1] / rates[0]:.1f}" if rates[0] else "-"
        print(f"{name} Etude | {row} | {ratio} |", flush=True)
        if given.cases:
            judged = asyncio.run(our_verdicts(snapshot, theirs["accepted"]))
            with given.cases.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(item)}\n" for item in judged)


if __name__ == "__main__":
    main()
