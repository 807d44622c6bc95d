from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.browser import chromium, opened
from helpers.viewer_runs import marked_row, played, written

from etude.server.viewer import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def drills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of real episodes; see ``viewer_runs.played``."""
    return played(tmp_path_factory.mktemp("drills"))


@pytest.fixture(scope="session")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one episode with every kind of mark."""
    return written(tmp_path_factory.mktemp("marked"), marked_row())


@pytest.fixture(scope="session")
def report_file(drills: Path, marked: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of both runs."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    write_report([drills, marked], out)
    return out.as_uri()


@pytest.fixture(scope="module")
def browser(report_file: str) -> Iterator[Browser]:
    """A browser; the runs are played before it starts, since both need the thread's event loop."""
    with chromium() as program:
        yield program


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page that fails the test when its script does, or when it asks another machine for anything."""
    with opened(browser) as new:
        yield new
