"""Blocks of the documentation: those marked `<!-- run -->` are run, page by page, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

BLOCK = re.compile(r"<!-- run -->\n```bash\n(.*?)```", re.DOTALL)
PAGES = {
    page.name: blocks for page in (ROOT / "docs").glob("*.md") if (blocks := BLOCK.findall(page.read_text("utf-8")))
}


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PAGES))
def test_page_runs_in_an_empty_folder_when_its_blocks_are_typed_in_order(page: str, tmp_path: Path) -> None:
    command = tmp_path / "bin" / "etude"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m etude.cli "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    variables = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    for block in PAGES[page]:
        typed = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(typed, cwd=work, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"


def test_tutorial_has_blocks_that_are_run() -> None:
    assert len(PAGES["tutorial.md"]) >= 4
