"""Blocks of the documentation that are marked `<!-- run: slow -->`: some of them train, which needs torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.doc_blocks import all_blocks, run_page

PAGES = sorted({block.page for block in all_blocks() if block.marker == "run: slow"})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_runs_with_its_slow_blocks_when_they_are_typed_in_order(page: str, tmp_path: Path) -> None:
    run_page(page, ("run", "run: slow"), tmp_path)
