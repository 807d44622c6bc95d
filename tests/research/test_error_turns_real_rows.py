"""The rows of the real package: the page has the tables that the command prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_page_has_the_tables_that_the_command_prints_from_the_rows(root: Path) -> None:
    folder = root / "research" / "error_turns"
    command = [sys.executable, str(folder / "real.py"), "--out", str(folder / "results" / "real.jsonl"), "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (folder / "RESULTS_REAL.md").read_text()
    tables = printed.strip().split("\n\n")
    assert len(tables) >= 2 and all(table in page for table in tables)
