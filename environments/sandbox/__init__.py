"""Sandboxes: one protocol, several backends, one conformance suite.

A sandbox shows a read-only workspace tree with one size-limited writable layer at ``/workspace``, read-only binds (the
Snapshot's interpreter and dependencies) at fixed paths, and nothing else of the host but an allow-listed base.

Reading order: ``protocol`` (what a sandbox does), ``registry`` (how one is opened), ``backends/`` (bubblewrap and
process) with ``keeper/`` (the process that runs their commands), ``docker/`` (docker and podman) and ``kubernetes/``
(pods) with ``containers/`` (the worker that runs their commands), ``layers/`` (trees: reset, changes, save),
``kernel/`` (system calls), ``conformance/`` (the checks that every backend must pass).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .protocol import (
    ENV_PREFIX,
    KILLED,
    MIB,
    PYTHON_PREFIX,
    SANDBOX_UID,
    WORKSPACE,
    Backend,
    Change,
    ExecResult,
    Layers,
    Limits,
    Sandbox,
    SavedLayer,
)

if TYPE_CHECKING:
    from .registry import SANDBOXES, available, open_sandbox, opened_sandbox

__all__ = [
    "ENV_PREFIX",
    "KILLED",
    "MIB",
    "PYTHON_PREFIX",
    "SANDBOXES",
    "SANDBOX_UID",
    "WORKSPACE",
    "Backend",
    "Change",
    "ExecResult",
    "Layers",
    "Limits",
    "Sandbox",
    "SavedLayer",
    "available",
    "open_sandbox",
    "opened_sandbox",
]
_LAZY = ("SANDBOXES", "available", "open_sandbox", "opened_sandbox")


def __getattr__(name: str) -> Any:
    # Opening needs asyncio and a backend; the vocabulary above does not.
    if name in _LAZY:
        return getattr(importlib.import_module(".registry", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
