"""A real package with one handwritten exercise, and real episodes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.environments.runs.play import run_episodes
from etude.environments.snapshots import Snapshot, build_snapshot, make_patch, make_workspace
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.models import GeneratorRef, Task

SAMPLE = DATA / "scales"
SOURCE, TESTS = "src/scales/notes.py", "tests/test_notes.py"


@pytest.fixture(scope="session")
def snapshot() -> Snapshot:
    return build_snapshot(str(SAMPLE))


@pytest.fixture(scope="session")
def task(snapshot: Snapshot) -> Task:
    """Return a task to write one function again; its tests are hidden."""
    source, tests = (SAMPLE / SOURCE).read_bytes(), (SAMPLE / TESTS).read_bytes()
    exercise = source.replace(b"    return NAMES.index(name)\n", b"    raise NotImplementedError\n")
    assert exercise != source
    cut = make_patch({SOURCE: source, TESTS: tests}, {SOURCE: exercise, TESTS: None})
    passed = snapshot.baseline.passed
    return Task(
        task_id="scales-1.2.0.hand.index",
        repo=snapshot.name,
        version=snapshot.version,
        base_commit=make_workspace(snapshot, cut, git=True).commit,
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Write scales.notes.index again\u2028with care: \u00e9, \U0001f600.",
        patch=make_patch({SOURCE: exercise}, {SOURCE: source}),
        test_patch=make_patch({TESTS: None}, {TESTS: tests}),
        workspace_patch=cut,
        FAIL_TO_PASS=[test for test in passed if test.startswith(TESTS) and "Interval" in test],
        PASS_TO_PASS=[],
        source_globs=snapshot.source_globs,
        protected_paths=["tests/**"],
        verifier=snapshot.verifier,
        licence=snapshot.licence,
    )


@pytest.fixture(scope="session")
def folder(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("set")
    write_tasks(out, [task])
    return out


@pytest.fixture(scope="session")
def played(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with one solved episode, then an unsolved one."""
    out = tmp_path_factory.mktemp("run")
    for agent in ("oracle", "noop"):
        asyncio.run(run_episodes(TaskSet.load(folder), agent, out=out))
    return out
