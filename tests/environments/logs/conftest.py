"""Logs that other tools wrote, and functions that annotate logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.environments.logs.annotating import AnnotateReport, annotate_logs
from etude.environments.runs.reader import Stored, read_run


@pytest.fixture(scope="session")
def logs(root: Path) -> Path:
    """The folder of logs; docs/annotate.md says which tool wrote which."""
    return root / "tests" / "data" / "logs"


Annotate = Callable[..., tuple[AnnotateReport, list[Stored]]]


@pytest.fixture
def annotate(tmp_path: Path) -> Annotate:
    """Return a function that annotates paths and returns the report and the stored episodes."""

    def run(*paths: Path, **options: Any) -> tuple[AnnotateReport, list[Stored]]:
        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        report = annotate_logs(paths, out, **options)
        return report, list(read_run(out))

    return run


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes values to a file: one as JSON, several as lines."""

    def write(name: str, *values: Any) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(json.dumps(value) for value in values) + "\n")
        return path

    return write
