"""The row: a measured Candidate becomes a Task with its id, its workspace and its statement."""

from __future__ import annotations

import hashlib
import json
import re

from ...environments.grading import matches
from ...environments.grading.type_check import COMPONENT as TYPES
from ...environments.rng import stream
from ...environments.snapshots import Snapshot, Workspace, make_workspace
from ...environments.snapshots.store.patches import make_patch
from ...environments.tasks.task_paths import plugin_files
from ...models import PytestVerifier, SnapshotRef, Task
from ..base import Candidate, Feature, Files, StatementContext
from ..python.hidden_tests import hide, names_subject, test_file
from ..python.source_tree import DOCUMENT_SUFFIXES, SOURCE_SUFFIXES, SourceTree, read_files
from ..statements.behaviours import MIN_BEHAVIOURS, behaviour_lines
from ..statements.interface import interface_of
from ..statements.known_failures import with_known_failures
from .measured_stages import Measured

PROTECTED = [
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
"""Patterns of files that no agent may change, whatever the task."""


def assemble(snapshot: Snapshot, tree: SourceTree, candidate: Candidate, measured: Measured) -> tuple[Task, Workspace]:
    """Return the Task and its agent's workspace. ``patch`` gives the solution, ``test_patch`` the hidden tests."""
    fail_to_pass, pass_to_pass = measured.failing, measured.passing
    added = candidate.hidden_tests.added
    hidden = workspace_tests(tree, candidate, fail_to_pass)
    shown = {**candidate.exercise, **hidden}
    solution = solution_files(snapshot, tree, candidate)
    base = read_files(snapshot.tree, {*shown, *solution, *added})
    documents = graded_documents(tree, candidate)
    graded = {path: added.get(path, base[path]) for path in {*hidden, *added, *documents}}
    tests_tree = tree.overlaid(added)
    workspace_patch = make_patch({path: base[path] for path in shown}, shown)
    workspace = make_workspace(snapshot, workspace_patch, git=True)
    interface = interface_of(tests_tree, candidate.interface, fail_to_pass)
    context = StatementContext(
        package=f"{snapshot.name} {snapshot.version}",
        failing=_most_specific_first(tests_tree, candidate, fail_to_pass),
        interface=interface,
        messages=measured.messages,
        failing_calls=measured.failing_calls,
        examples=measured.examples,
        older=measured.older,
    )
    task = Task(
        task_id=task_id(snapshot, candidate),
        repo=snapshot.name,
        version=snapshot.version,
        base_commit=workspace.commit,
        snapshot=SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json")),
        generator=candidate.generator,
        problem_statement=with_known_failures(candidate.statement.render(context), snapshot.baseline.dropped),
        interface=[*candidate.interface, *interface],
        patch=make_patch({path: shown.get(path, base[path]) for path in solution}, solution),
        test_patch=make_patch({path: shown.get(path, base[path]) for path in graded}, graded),
        workspace_patch=workspace_patch,
        FAIL_TO_PASS=fail_to_pass,
        PASS_TO_PASS=pass_to_pass,
        source_globs=[*snapshot.source_globs, *candidate.configuration.paths],
        protected_paths=[
            path
            for path in [*protected_paths(tree), *plugin_files(snapshot.tree), *documents]
            if path not in candidate.configuration.paths
        ],
        verifier=_verifier(snapshot, candidate),
        features={**candidate.features, **_measured_features(candidate, measured)},
        licence=snapshot.licence,
    )
    return task, workspace


def graded_documents(tree: SourceTree, candidate: Candidate) -> list[str]:
    """Return the documents that the exercise changes and tests read.

    They are treated like hidden tests: they come back at grading, and an agent's version of them is not graded.
    """
    documents = (path for path in candidate.exercise if path.endswith(DOCUMENT_SUFFIXES))
    return [path for path in tree.read_by_tests(documents) if path not in candidate.solution]


def _verifier(snapshot: Snapshot, candidate: Candidate) -> PytestVerifier:
    """Return how a task is graded: by the Snapshot's tests, and by a type checker where it has typed files.

    The solution never decides about pytest's settings.
    """
    verifier, settings = snapshot.verifier, candidate.configuration.pytest_settings
    if settings is not None:
        verifier = verifier.model_copy(update={"config_file": settings})
    if not candidate.typed_files:
        return verifier
    components = [*verifier.components, TYPES]
    return verifier.model_copy(update={"typed_files": list(candidate.typed_files), "components": components})


def candidate_key(digest: str, candidate: Candidate) -> str:
    """Return the identity of a candidate as a digest: Snapshot (its ``digest``), generator with its knobs, entity."""
    reference = candidate.generator
    identity = [digest, reference.name, reference.version, reference.seed, reference.knobs, candidate.entity]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def task_id(snapshot: Snapshot, candidate: Candidate) -> str:
    """Return ``package-version.generator.entity-hash``, which is a valid file name on every system."""
    entity = re.sub(r"\W+", "_", candidate.entity.rsplit("::", 1)[-1]).strip("_")
    stem = re.sub(r"[^\w.-]+", "_", f"{snapshot.name}-{snapshot.version}")
    return f"{stem}.{candidate.generator.name}.{entity}-{candidate_key(snapshot.digest, candidate)[:8]}"


def workspace_tests(tree: SourceTree, candidate: Candidate, fail_to_pass: list[str]) -> Files:
    """Return the test files of the workspace that differ from the Snapshot, by the candidate's test policy.

    A file that keeps a failing test (policy ``half``) keeps its imports too, so pytest cannot collect it before the
    missing names are back. Added test files are there as the Snapshot has them, or as they are graded when visible.
    """
    tests = candidate.hidden_tests
    if tests.step is not None:
        return dict(tests.step.shown)
    if tests.policy == "visible":
        return dict(tests.added)
    replaceable = [test for test in fail_to_pass if test_file(test) not in tests.added]
    visible: set[str] = set()
    if tests.policy == "half":
        functions = sorted({test.partition("[")[0] for test in replaceable})
        stream(candidate.generator.seed, "half", candidate.entity).shuffle(functions)
        visible = set(functions[: len(functions) // 2])
    hidden = [test for test in replaceable if test.partition("[")[0] not in visible]
    intact = {*tests.added, *(test_file(test) for test in visible)}
    rewritten = {path: content for path, content in tests.rewritten.items() if path not in intact}
    return hide(tree, hidden, rewritten, {path: tests.lost_names.get(path, []) for path in rewritten})


def source_paths(tree: SourceTree, candidate: Candidate) -> list[str]:
    """Return the files that a solution has to write.

    They are what the exercise changes of the package's code and stub files, without documents, and what the candidate
    brings.
    """
    changed = [path for path in candidate.exercise if path.endswith(SOURCE_SUFFIXES) and tree.is_source(path)]
    return [*changed, *(path for path in candidate.solution if path not in changed)]


def solution_files(snapshot: Snapshot, tree: SourceTree, candidate: Candidate) -> Files:
    """Return the files of the solution: as the candidate brings them, or as the Snapshot has them."""
    return {**read_files(snapshot.tree, source_paths(tree, candidate)), **candidate.solution}


def protected_paths(tree: SourceTree) -> list[str]:
    """Return patterns of what an agent's diff may not contain: tests, their helpers, and configuration."""
    folders = {path.rsplit("/", 1)[0] for path in tree.tests if "/" in path}
    test_folders = sorted(f"{folder}/**" for folder in folders if tree.is_test(f"{folder}/x.py"))
    covered = [*PROTECTED, *test_folders]
    return [*covered, *sorted(path for path in tree.tests if not matches(path, covered))]


def _most_specific_first(tree: SourceTree, candidate: Candidate, failing: list[str]) -> list[str]:
    """Return the failing tests: those that name the subject, then those that run the changed code, then the others."""
    affected = set(candidate.hidden_tests.affected)

    def rank(test: str) -> tuple[bool, bool]:
        about = bool(candidate.subject) and names_subject(tree, test, candidate.subject)
        return not about, test not in affected

    return sorted(failing, key=rank)


def _measured_features(candidate: Candidate, measured: Measured) -> dict[str, Feature]:
    failing = measured.failing
    is_described = candidate.documented or measured.failing_calls or measured.examples
    # A test that fails because its module cannot be imported does not describe the behaviour.
    affected = [test for test in failing if test in candidate.hidden_tests.affected]
    features: dict[str, Feature] = {
        "fail_to_pass": len(failing),
        "pass_to_pass": len(measured.passing),
        "files": len({*candidate.exercise, *candidate.solution}),
        "needs_llm_spec": not is_described and len(behaviour_lines(affected)) < MIN_BEHAVIOURS,
    }
    if candidate.migration is not None:
        features["migrates_from"] = measured.older
    if candidate.observe_calls:
        features["reproduction"] = bool(measured.failing_calls)
    if candidate.show_examples:
        features["examples"] = len(measured.examples)
    return features
