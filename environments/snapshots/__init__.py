"""Snapshots: a real code base made runnable once, read-only, addressed by the digest of its recipe."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .baseline import Baseline
    from .builder import build_snapshot, open_snapshot
    from .errors import PatchError, SnapshotError
    from .patches import apply_patch, make_patch
    from .recipe import Recipe, SnapshotOptions
    from .snapshot import Snapshot
    from .testrun import Outcome, TestRun, run_tests
    from .workspace import Workspace, make_workspace, scratch_tree

_HOMES = {
    "Baseline": "baseline",
    "Outcome": "testrun",
    "PatchError": "errors",
    "Recipe": "recipe",
    "Snapshot": "snapshot",
    "SnapshotError": "errors",
    "SnapshotOptions": "recipe",
    "TestRun": "testrun",
    "Workspace": "workspace",
    "apply_patch": "patches",
    "build_snapshot": "builder",
    "make_patch": "patches",
    "make_workspace": "workspace",
    "open_snapshot": "builder",
    "run_tests": "testrun",
    "scratch_tree": "workspace",
}

__all__ = [
    "Baseline",
    "Outcome",
    "PatchError",
    "Recipe",
    "Snapshot",
    "SnapshotError",
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
    """Names are loaded when used: patches need neither packaging nor a sandbox."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
