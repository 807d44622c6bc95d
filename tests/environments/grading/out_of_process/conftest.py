"""The names that the files sent into the tests' sandbox define there."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.processes.programs import boundary_parts


@pytest.fixture(scope="module")
def side() -> dict[str, Any]:
    """Return the names that the files define where they run: one after another, in one scope."""
    scope: dict[str, Any] = {"__name__": "side"}
    for part in boundary_parts():
        exec(compile(part, "<side>", "exec"), scope)
    return scope
