"""Snapshots: a real code base made runnable once, read-only, addressed by the digest of its recipe.

Reading order: ``recipe`` (options and recipe), ``snapshot`` (the result), ``builder`` (how it is made), ``source``
(where the code comes from), ``project`` (what the code needs), ``test_run`` (runs of the tests, the baseline),
``store`` (cache, archives, patches, workspaces).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder.build import build_snapshot, open_snapshot
    from .recipe import Recipe, SnapshotOptions
    from .snapshot import Snapshot
    from .store.patches import apply_patch, make_patch
    from .store.workspace import Workspace, make_workspace, scratch_tree
    from .test_run.baseline import Baseline
    from .test_run.test_runner import Outcome, TestRun, run_tests

_HOMES = {
    "Baseline": "test_run.baseline",
    "Outcome": "test_run.test_runner",
    "Recipe": "recipe",
    "Snapshot": "snapshot",
    "SnapshotOptions": "recipe",
    "TestRun": "test_run.test_runner",
    "Workspace": "store.workspace",
    "apply_patch": "store.patches",
    "build_snapshot": "builder.build",
    "make_patch": "store.patches",
    "make_workspace": "store.workspace",
    "open_snapshot": "builder.build",
    "run_tests": "test_run.test_runner",
    "scratch_tree": "store.workspace",
}

__all__ = [
    "Baseline",
    "Outcome",
    "Recipe",
    "Snapshot",
    "SnapshotOptions",
    "TestRun",
    "Workspace",
    "apply_patch",
    "build_snapshot",
    "make_patch",
    "make_workspace",
    "open_snapshot",
    "run_tests",
    "scratch_tree",
]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: patches need neither packaging nor a sandbox."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
