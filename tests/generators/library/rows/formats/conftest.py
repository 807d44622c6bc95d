"""The sample rows, and rows written for one test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import DATA

ROWS = DATA / "rows"


@pytest.fixture
def samples() -> Path:
    """The folder of the sample rows."""
    return ROWS


@pytest.fixture
def changed_row(tmp_path: Path) -> Callable[..., str]:
    """Write the first sample row of a file, changed, as ``rows.jsonl``; a column that is None is left out."""

    def write(file: str, **changes: Any) -> str:
        row = {**json.loads((ROWS / file).read_text().splitlines()[0]), **changes}
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")
        return str(path)

    return write
