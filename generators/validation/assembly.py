"""The row: a measured Candidate becomes a Task, its workspace and its statement."""

from __future__ import annotations

from typing import Any

from ...environments.grading import matches
from ...environments.rng import stream
from ...environments.snapshots import Snapshot, Workspace, make_workspace
from ...environments.snapshots.store.patches import make_patch
from ...models import InterfaceItem, SnapshotRef, Task
from ..base import Candidate, Files
from ..library.deletion.statement import deletion_statement, needs_words
from ..python.hidden_tests import hide, names_target
from ..python.source_tree import SourceTree
from ..statements.interface import interface
from .task_id import task_id

SOURCE_SUFFIXES = (".py", ".pyi")

_PROTECTED = [
    ".git/**",
    "**/conftest.py",
    "**/test_*.py",
    "**/*_test.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "**/*.pth",
    "**/*.dist-info/**",
    "**/*.egg-info/**",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "pytest.ini",
    "tox.ini",
]


def assemble(
    snapshot: Snapshot, tree: SourceTree, candidate: Candidate, fail_to_pass: list[str], pass_to_pass: list[str]
) -> tuple[Task, Workspace]:
    """The Task and the workspace that its agent gets. ``patch`` restores the sources, ``test_patch`` the tests."""
    hidden = hidden_files(tree, candidate, fail_to_pass)
    shown = {**candidate.exercise, **hidden}
    base = {path: _content(snapshot, path) for path in shown}
    sources = source_paths(tree, candidate)
    workspace_patch = make_patch(base, shown)
    workspace = make_workspace(snapshot, workspace_patch, git=True)
    names = interface(tree, _targets(candidate.facts), fail_to_pass)
    touching = set(candidate.affected)
    about = sorted(
        fail_to_pass, key=lambda test: (not names_target(tree, test, candidate.facts["name"]), test not in touching)
    )
    visible = candidate.generator.knobs.get("tests", "hidden")
    task = Task(
        task_id=task_id(snapshot, candidate),
        repo=snapshot.name,
        version=snapshot.version,
        base_commit=workspace.commit,
        snapshot=SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json")),
        generator=candidate.generator,
        problem_statement=deletion_statement(
            f"{snapshot.name} {snapshot.version}", candidate.facts, about, names, tests=visible
        ),
        interface=names,
        patch=make_patch({path: shown[path] for path in sources}, {path: base[path] for path in sources}),
        test_patch=make_patch(hidden, {path: base[path] for path in hidden}),
        workspace_patch=workspace_patch,
        FAIL_TO_PASS=fail_to_pass,
        PASS_TO_PASS=pass_to_pass,
        source_globs=snapshot.source_globs,
        protected_paths=protected_paths(tree),
        verifier=snapshot.verifier,
        features={**candidate.features, **_features(fail_to_pass, pass_to_pass, candidate)},
        licence=snapshot.licence,
    )
    return task, workspace


def hidden_files(tree: SourceTree, candidate: Candidate, fail_to_pass: list[str]) -> Files:
    """Test files as the workspace shows them, by the knob ``tests``.

    ``visible``: all as they were. ``half``: every second failing test, drawn by the seed, stays, and all are graded.
    A file that keeps such a test keeps its imports, so it cannot be collected before the missing names are back.
    """
    shown = candidate.generator.knobs.get("tests", "hidden")
    if shown == "visible":
        return {}
    kept: set[str] = set()
    if shown == "half":
        functions = sorted({test.partition("[")[0] for test in fail_to_pass})
        stream(candidate.generator.seed, "half", candidate.entity).shuffle(functions)
        kept = set(functions[: len(functions) // 2])
    hidden = [test for test in fail_to_pass if test.partition("[")[0] not in kept]
    whole = {test.partition("::")[0] for test in kept}
    rewritten = {path: content for path, content in candidate.tests.items() if path not in whole}
    return hide(tree, hidden, rewritten, {path: candidate.missing.get(path, []) for path in rewritten})


def source_paths(tree: SourceTree, candidate: Candidate) -> list[str]:
    """What a solution has to restore: the package's code and stub files, not documents and sample programs."""
    return [path for path in candidate.exercise if path.endswith(SOURCE_SUFFIXES) and tree.is_source(path)]


def protected_paths(tree: SourceTree) -> list[str]:
    """What an agent's diff may never hold: tests, whatever serves them, and configuration."""
    folders = {path.rsplit("/", 1)[0] for path in tree.tests if "/" in path}
    test_folders = sorted(f"{folder}/**" for folder in folders if tree.is_test(f"{folder}/x.py"))
    covered = [*_PROTECTED, *test_folders]
    return [*covered, *sorted(path for path in tree.tests if not matches(path, covered))]


def _content(snapshot: Snapshot, path: str) -> bytes | None:
    file = snapshot.tree / path
    return file.read_bytes() if file.is_file() else None


def _targets(facts: dict[str, Any]) -> list[InterfaceItem]:
    """The deleted entity first, then what was deleted with it."""
    return [
        InterfaceItem(name=f"{item['module']}.{item['name']}", kind=item["kind"], signature=item["signature"])
        for item in [facts, *facts.get("entities", [])]
    ]


def _features(failing: list[str], passing: list[str], candidate: Candidate) -> dict[str, int | bool]:
    return {
        "fail_to_pass": len(failing),
        "pass_to_pass": len(passing),
        "files": len(candidate.exercise),
        # Tests that fail because their module cannot be imported say nothing of what the entity does.
        "needs_llm_spec": needs_words(candidate.facts, [test for test in failing if test in candidate.affected]),
    }
