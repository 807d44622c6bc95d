"""Tables of the comparison of optimizers: they are those of the recorded rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_tables_are_those_of_the_rows(root: Path) -> None:
    folder = root / "research" / "muon_pretraining"
    command = [sys.executable, str(folder / "compare.py"), "--out", str(folder), "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (folder / "RESULTS.md").read_text()
    tables = [line for line in printed.splitlines() if line]
    assert len(tables) == 8
    assert all(line in page for line in tables)
